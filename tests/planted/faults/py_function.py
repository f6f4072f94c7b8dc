"""Lines of text to character codes."""

import numpy as np
import tensorflow as tf

PROOF = "throughput"
KIND = "py-function"
GAIN = False

WIDTH = 320
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,"
CODES = {character: code for code, character in enumerate(ALPHABET, start=1)}


def _corpus(lines=8000):
    letters = np.frombuffer(ALPHABET.encode(), np.uint8)
    drawn = np.random.default_rng(11).choice(letters, (lines, WIDTH))
    return [line.tobytes() for line in drawn]


def encode(line):
    """Codes of a line; a run of blanks counts as one."""
    codes, last = [], None
    for character in line.decode():
        if character == " " and last == " ":
            continue
        codes.append(CODES.get(character, 0))
        last = character
    codes += [0] * (WIDTH - len(codes))
    return np.array(codes, np.int64)


_TABLE = np.zeros(256, np.int64)
for _character, _code in CODES.items():
    _TABLE[ord(_character)] = _code


def encode_in_graph(line):
    characters = tf.io.decode_raw(line, tf.uint8)
    blank = tf.equal(characters, ord(" "))
    after_blank = tf.concat([[False], blank[:-1]], 0)
    kept = tf.boolean_mask(characters, ~(blank & after_blank))
    codes = tf.gather(_TABLE, tf.cast(kept, tf.int32))
    return tf.pad(codes, [[0, WIDTH - tf.size(codes)]])


def make_dataset():
    lines = tf.data.Dataset.from_tensor_slices(_corpus())
    codes = lines.map(lambda s: tf.numpy_function(encode, [s], tf.int64), num_parallel_calls=4)  # FAULT
    return codes.map(_with_shape).batch(64).prefetch(2)


def make_dataset_fixed():
    lines = tf.data.Dataset.from_tensor_slices(_corpus())
    codes = lines.map(encode_in_graph, num_parallel_calls=4)
    return codes.map(_with_shape).batch(64).prefetch(2)


def _with_shape(codes):
    return tf.ensure_shape(codes, [WIDTH])
