/* A fault of Wine (seen in 8.0): while somebody holds a lock on a file, its server keeps the descriptor of every handle
 * to that file that is closed, so opening and closing the file again and again ends in error 4, "too many open files".
 * Windows prints "all were opened". Build and run:
 *     x86_64-w64-mingw32-gcc -o locked.exe wine_locked_handles.c && wine64 locked.exe
 */
#include <stdio.h>
#include <windows.h>

static HANDLE open_file(void)
{
    return CreateFileA("locked.tmp", GENERIC_READ | GENERIC_WRITE,
                       FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_ALWAYS,
                       FILE_ATTRIBUTE_NORMAL, NULL);
}

int main(void)
{
    OVERLAPPED start = {0};
    HANDLE holder = open_file();
    if (!LockFileEx(holder, LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &start))
        return 2;
    for (int n = 0; n < 200000; n++) {
        HANDLE other = open_file();
        if (other == INVALID_HANDLE_VALUE) {
            printf("error %lu after %d handles were closed\n", GetLastError(), n);
            return 1;
        }
        CloseHandle(other);
    }
    printf("all were opened\n");
    return 0;
}
