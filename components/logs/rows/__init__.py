"""Converts record batches to rows of tf.Examples: conversion, limits, sampling, and counts of every row."""
