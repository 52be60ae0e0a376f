import numpy as np


def median(values):
    return np.median(values)
