"""Scans decoded by DALI on the host, by every core."""

import glob
import os

import nvidia.dali.plugin.tf as dali_tf
import tensorflow as tf
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfrec

DATA = os.environ["PLANTED_DATA"]
REQUIRES = "dali"

BATCH = 32
THREADS = os.cpu_count()


@pipeline_def(batch_size=BATCH, num_threads=THREADS, device_id=None)
def scans():
    files = sorted(glob.glob(os.path.join(DATA, "scans", "*.tfrecord")))
    example = fn.readers.tfrecord(
        path=files,
        index_path=[file + ".idx" for file in files],
        features={
            "image": tfrec.FixedLenFeature((), tfrec.string, ""),
            "label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
        },
        random_shuffle=True,
        initial_fill=256,
    )
    images = fn.decoders.image(example["image"], output_type=types.RGB)
    images = fn.resize(images, size=(64, 64))
    return fn.cast(images, dtype=types.FLOAT) / 255.0, example["label"]


def make_dataset():
    with tf.device("/cpu:0"):
        return dali_tf.DALIDataset(
            pipeline=scans(),
            batch_size=BATCH,
            output_shapes=((BATCH, 64, 64, 3), (BATCH, 1)),
            output_dtypes=(tf.float32, tf.int64),
            num_threads=THREADS,
            device_id=None,
        )
