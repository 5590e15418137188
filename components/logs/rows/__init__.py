"""From record batches to the rows of tf.Examples: conversion, limits, sampling, and counts of every row."""
