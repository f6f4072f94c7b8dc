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


def sheet_paths():
    return [os.fspath(p) for p in sorted(Path(DATA, "sheets").glob("*.png"))]


def tiles_of(path):
    """All tiles of one sheet, as a data set."""
    sheet = tf.io.decode_png(tf.io.read_file(path), channels=3)
    rows = tf.reshape(sheet, [4, TILE, 4, TILE, 3])
    tiles = tf.reshape(tf.transpose(rows, [0, 2, 1, 3, 4]), [16, TILE, TILE, 3])
    return tf.data.Dataset.from_tensor_slices(tiles)


def make_dataset():
    paths = tf.data.Dataset.from_tensor_slices(sheet_paths()).shuffle(16).repeat()
    tiles = paths.interleave(tiles_of, cycle_length=1, block_length=4)  # FAULT
    tiles = tiles.batch(32, drop_remainder=True)
    return tiles.prefetch(2)


def make_dataset_fixed():
    paths = tf.data.Dataset.from_tensor_slices(sheet_paths()).shuffle(16).repeat()
    tiles = paths.interleave(tiles_of, cycle_length=4, block_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    tiles = tiles.batch(32, drop_remainder=True)
    return tiles.prefetch(2)
