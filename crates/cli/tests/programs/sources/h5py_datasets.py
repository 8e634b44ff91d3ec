"""h5py on one file: `create`, `change` and `read`, each printing what it finds. h5py_datasets.py FORM FILE"""

import hashlib
import sys

import h5py
import numpy


def show(file):
    def one(name, item):
        if isinstance(item, h5py.Dataset):
            print(name, item.shape, item.dtype, hashlib.sha256(item[()].tobytes()).hexdigest())
        else:
            print(name, sorted(item.attrs))

    file.visititems(one)


def create(path):
    with h5py.File(path, "w", track_order=False) as file:
        group = file.create_group("group")
        group.attrs["text"] = "as it was"
        grid = numpy.arange(300 * 200, dtype="f8").reshape(300, 200)
        group.create_dataset("contiguous", data=grid)
        chunked = group.create_dataset("chunked", shape=grid.shape, dtype="f8", chunks=(17, 33))
        for row in range(0, 300, 7):
            chunked[row : row + 7] = grid[row : row + 7] * 2
            file.flush()
        packed = group.create_dataset("packed", data=grid.astype("i4"), chunks=True, compression="gzip", shuffle=True)
        assert packed[5, 5] == grid[5, 5]
        growing = file.create_dataset("growing", shape=(0,), maxshape=(None,), dtype="i8", chunks=(100,))
        for part in range(12):
            growing.resize((part + 1) * 150, axis=0)
            growing[part * 150 :] = numpy.arange(150) * part
        show(file)


def change(path):
    with h5py.File(path, "r+") as file:
        file["group/contiguous"][10:250:3, 5:190:7] = -1.0
        file["group/chunked"][::5] += 1
        del file["group/packed"]
        file["group"].attrs["text"] = "changed to something longer than it was before"
        file["group"].create_dataset("strings", data=numpy.array([b"row %d" % k for k in range(500)]))
        assert (file["group/contiguous"][10:250:3, 5:190:7] == -1.0).all()
        show(file)


def read(path):
    with h5py.File(path, "r") as file:
        show(file)
        columns = [file["group/contiguous"][:, column].sum() for column in range(0, 200, 13)]
        print(columns)


{"create": create, "change": change, "read": read}[sys.argv[1]](sys.argv[2])
