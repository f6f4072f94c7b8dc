"""Overlapping patches of large sheets, mixed."""

import os
import pathlib

import tensorflow as tf

PROOF = "memory"
KIND = "shuffle-buffer-too-large"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]


class Patches:
    side = 96
    stride = 8

    def __init__(self, folder):
        self.names = [str(name) for name in sorted(pathlib.Path(folder).iterdir())]

    def cut(self, name):
        sheet = tf.image.decode_png(tf.io.read_file(name), channels=3)
        window, step = [1, self.side, self.side, 1], [1, self.stride, self.stride, 1]
        patches = tf.image.extract_patches(sheet[None], window, step, [1, 1, 1, 1], "VALID")
        return tf.data.Dataset.from_tensor_slices(tf.reshape(patches, [-1, self.side, self.side, 3]))

    def dataset(self):
        names = tf.data.Dataset.from_tensor_slices(self.names).shuffle(len(self.names))
        return names.interleave(self.cut, cycle_length=2)


def make_dataset():
    patches = Patches(os.path.join(DATA, "sheets")).dataset()
    patches = patches.shuffle(100_000)  # FAULT
    return patches.batch(64, drop_remainder=True).prefetch(2)


def make_dataset_fixed():
    patches = Patches(os.path.join(DATA, "sheets")).dataset()
    patches = patches.shuffle(2_000)
    return patches.batch(64, drop_remainder=True).prefetch(2)
