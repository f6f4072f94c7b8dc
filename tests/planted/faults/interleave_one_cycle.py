"""Large sheets, cut into the tiles that the network sees."""

import os
from pathlib import Path

import tensorflow as tf

PROOF = "throughput"
KIND = "serial-interleave"
GAIN = True
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]
TILE = 128


def slides():
    """The paths of the sheets of each slide."""
    paths = [os.fspath(p) for p in sorted(Path(DATA, "sheets").glob("*.png"))]
    return [paths[first : first + 2] for first in range(0, len(paths), 2)]


def tiles_of_sheet(path):
    sheet = tf.io.decode_png(tf.io.read_file(path), channels=3)
    rows = tf.reshape(sheet, [4, TILE, 4, TILE, 3])
    tiles = tf.reshape(tf.transpose(rows, [0, 2, 1, 3, 4]), [16, TILE, TILE, 3])
    return tf.data.Dataset.from_tensor_slices(tiles)


def tiles_of_slide(paths):
    return tf.data.Dataset.from_tensor_slices(paths).flat_map(tiles_of_sheet)


def make_dataset():
    dataset = tf.data.Dataset.from_tensor_slices(slides()).shuffle(8).repeat()
    tiles = dataset.interleave(tiles_of_slide, cycle_length=1, block_length=4)  # FAULT
    tiles = tiles.batch(32, drop_remainder=True)
    return tiles.prefetch(2)


def make_dataset_fixed():
    dataset = tf.data.Dataset.from_tensor_slices(slides()).shuffle(8).repeat()
    tiles = dataset.interleave(tiles_of_slide, cycle_length=4, block_length=4, num_parallel_calls=4)
    tiles = tiles.batch(32, drop_remainder=True)
    return tiles.prefetch(2)
