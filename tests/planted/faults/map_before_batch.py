import numpy as np
import tensorflow as tf

PROOF = "throughput"
KIND = "map-before-batch"
GAIN = True
SAME_CALLS = True

rng = np.random.default_rng(42)
X = rng.normal(loc=3.0, scale=2.0, size=(20_000, 48)).astype(np.float32)
Y = (X[:, 0] > 3.0).astype(np.int32)
MEAN, STD = X.mean(axis=0), X.std(axis=0)

standardize = lambda x, y: ((x - MEAN) / STD, y)  # noqa: E731


def make_dataset():
    ds = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(4096)
    ds = ds.map(standardize, num_parallel_calls=tf.data.AUTOTUNE)  # FAULT
    ds = ds.batch(64)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_dataset_fixed():
    ds = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(4096)
    ds = ds.batch(64)
    ds = ds.map(standardize, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)
