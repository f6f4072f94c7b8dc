"""The tf.train.Example message, without importing TensorFlow.

Built from the same field numbers as tensorflow/core/example/{example,feature}.proto,
so that both read the same bytes; parsing is protobuf's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

Kind = str
"""'bytes_list', 'float_list' or 'int64_list'; '' for a feature without a value."""


def parse_example(data: bytes) -> dict[str, tuple[Kind, Sequence[Any]]]:
    """The features of a serialized Example: name to (kind, values).

    Errors: ValueError when the bytes are no Example.
    """
    try:
        example = _message_class().FromString(data)
    except message.DecodeError as error:
        raise ValueError("is no tf.train.Example") from error
    features = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind") or ""
        features[name] = (kind, getattr(feature, kind).value if kind else ())
    return features


@cache
def _message_class() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="feedline/example.proto", package="feedline", syntax="proto3"
    )
    lists = {
        "BytesList": (field.TYPE_BYTES, "bytes_list"),
        "FloatList": (field.TYPE_FLOAT, "float_list"),
        "Int64List": (field.TYPE_INT64, "int64_list"),
    }
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (list_name, (value_type, field_name)) in enumerate(lists.items(), start=1):
        file.message_type.add(name=list_name).field.add(
            name="value", number=1, type=value_type, label=field.LABEL_REPEATED
        )
        feature.field.add(
            name=field_name,
            number=number,
            type=field.TYPE_MESSAGE,
            label=field.LABEL_OPTIONAL,
            type_name=f".feedline.{list_name}",
            oneof_index=0,
        )
    file.message_type.append(feature)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(
        name="value",
        number=2,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_OPTIONAL,
        type_name=".feedline.Feature",
    )
    features.field.add(
        name="feature",
        number=1,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=".feedline.Features.FeatureEntry",
    )
    file.message_type.add(name="Example").field.add(
        name="features",
        number=1,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_OPTIONAL,
        type_name=".feedline.Features",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("feedline.Example"))
