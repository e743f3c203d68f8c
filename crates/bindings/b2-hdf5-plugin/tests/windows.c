/* The filters inside HDF5 on Windows: a data set is written and read through one, by its library.
 *
 *     x86_64-w64-mingw32-gcc -o windows.exe tests/windows.c
 *     wine windows.exe HDF5.DLL LIBRARY NUMBER
 *
 * HDF5.DLL may be that of the wheel of h5py, LIBRARY is h5b2kit_blosc.dll (32001) or h5b2kit_blosc2.dll (32026). Prints how many
 * items were the same, and how many bytes are stored for them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

typedef int64_t hid_t;
typedef unsigned long long hsize_t;

static HMODULE hdf5;

static void *find(HMODULE library, const char *name) {
    void *found = (void *)GetProcAddress(library, name);
    if (!found) {
        printf("no %s\n", name);
        exit(2);
    }
    return found;
}

#define CALL(result, name, ...) ((result(*)(__VA_ARGS__))find(hdf5, #name))
#define VARIABLE(name) (*(hid_t *)find(hdf5, #name))

static void done(int is_done, const char *what) {
    if (!is_done) {
        printf("failed: %s\n", what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    enum { ROWS = 300, COLUMNS = 200 };
    static int items[ROWS][COLUMNS], found[ROWS][COLUMNS];
    done(argc == 4, "three arguments");
    SetDllDirectoryA(".");
    hdf5 = LoadLibraryExA(argv[1], NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    HMODULE library = LoadLibraryA(argv[2]);
    done(hdf5 != NULL && library != NULL, "loading the libraries");
    int number = atoi(argv[3]);
    unsigned major, minor, release;
    CALL(int, H5open, void)();
    CALL(int, H5get_libversion, unsigned *, unsigned *, unsigned *)(&major, &minor, &release);
    printf("HDF5 %u.%u.%u, filter %d: ", major, minor, release, number);
    const void *(*info)(void) = (const void *(*)(void))find(library, "H5PLget_plugin_info");
    done(CALL(int, H5Zregister, const void *)(info()) >= 0, "H5Zregister");
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) items[row][column] = row * column / 7;
    hsize_t shape[2] = {ROWS, COLUMNS}, chunks[2] = {64, 50};
    unsigned values[7] = {0, 0, 0, 0, 5, 1, 5};
    hid_t file = CALL(hid_t, H5Fcreate, const char *, unsigned, hid_t, hid_t)("windows.h5", 2, 0, 0);
    done(file >= 0, "H5Fcreate");
    hid_t space = CALL(hid_t, H5Screate_simple, int, const hsize_t *, const hsize_t *)(2, shape, NULL);
    hid_t creation = CALL(hid_t, H5Pcreate, hid_t)(VARIABLE(H5P_CLS_DATASET_CREATE_ID_g));
    CALL(int, H5Pset_chunk, hid_t, int, const hsize_t *)(creation, 2, chunks);
    done(CALL(int, H5Pset_filter, hid_t, int, unsigned, size_t, const unsigned *)(creation, number, 0, 7, values) >= 0, "H5Pset_filter");
    hid_t type = VARIABLE(H5T_NATIVE_INT_g);
    hid_t data = CALL(hid_t, H5Dcreate2, hid_t, const char *, hid_t, hid_t, hid_t, hid_t, hid_t)(file, "x", type, space, 0, creation, 0);
    done(data >= 0, "H5Dcreate2");
    done(CALL(int, H5Dwrite, hid_t, hid_t, hid_t, hid_t, hid_t, const void *)(data, type, 0, 0, 0, items) >= 0, "H5Dwrite");
    CALL(int, H5Dclose, hid_t)(data);
    CALL(int, H5Fclose, hid_t)(file);
    file = CALL(hid_t, H5Fopen, const char *, unsigned, hid_t)("windows.h5", 0, 0);
    data = CALL(hid_t, H5Dopen2, hid_t, const char *, hid_t)(file, "x", 0);
    done(CALL(int, H5Dread, hid_t, hid_t, hid_t, hid_t, hid_t, void *)(data, type, 0, 0, 0, found) >= 0, "H5Dread");
    int same = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) same += found[row][column] == items[row][column];
    hsize_t stored = CALL(hsize_t, H5Dget_storage_size, hid_t)(data);
    printf("%d of %d items are the same, %llu bytes of %d are stored\n", same, ROWS * COLUMNS, stored, (int)sizeof items);
    CALL(int, H5Dclose, hid_t)(data);
    CALL(int, H5Fclose, hid_t)(file);
    return same != ROWS * COLUMNS || stored >= sizeof items;
}
