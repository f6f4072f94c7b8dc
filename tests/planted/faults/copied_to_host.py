"""DALI decodes for the GPU, the model trains there."""

import glob
import os

import nvidia.dali.plugin.tf as dali_tf
import tensorflow as tf
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfrec

DATA = os.environ["PLANTED_DATA"]

PROOF = "throughput"
KIND = "copied-to-host"
GAIN = True
SAME_CALLS = True
REQUIRES = "gpu"

BATCH, SIDE = 64, 256


@pipeline_def(batch_size=BATCH, num_threads=os.cpu_count(), device_id=0, prefetch_queue_depth=3)
def scans_on_gpu():
    files = sorted(glob.glob(os.path.join(DATA, "scans", "*.tfrecord")))
    example = fn.readers.tfrecord(
        path=files,
        index_path=[file + ".idx" for file in files],
        features={
            "image": tfrec.FixedLenFeature((), tfrec.string, ""),
            "label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
        },
    )
    images = fn.decoders.image(example["image"], device="mixed", output_type=types.RGB)
    # Large floats, made on the GPU: little to decode, much to copy.
    images = fn.resize(images, size=(SIDE, SIDE))
    return fn.cast(images, dtype=types.FLOAT) / 255.0, example["label"].gpu()


ELEMENT = {
    "batch_size": BATCH,
    "output_shapes": ((BATCH, SIDE, SIDE, 3), (BATCH, 1)),
    "output_dtypes": (tf.float32, tf.int64),
    "num_threads": os.cpu_count(),
    "device_id": 0,
    "prefetch_queue_depth": 3,
}


def make_dataset():
    with tf.device("/cpu:0"):
        return dali_tf.DALIDataset(pipeline=scans_on_gpu(), **ELEMENT)  # FAULT


def make_dataset_fixed():
    with tf.device("/gpu:0"):
        return dali_tf.DALIDataset(pipeline=scans_on_gpu(), **ELEMENT)


@tf.function
def train_step(images, labels):
    with tf.device("/gpu:0"):
        return tf.reduce_mean(images, axis=[1, 2, 3]) - tf.cast(labels[:, 0], tf.float32)
