/* bcryptprimitives.dll for tests under wine 8, which has none. Rust's library takes its random numbers from there. On Windows the
   system's own one is used: this file is never shipped. */

#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID place, ULONG length); /* RtlGenRandom of advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE place, SIZE_T length) {
    while (length > 0) {
        ULONG part = length > 1u << 20 ? 1u << 20 : (ULONG)length;
        if (!SystemFunction036(place, part)) return FALSE;
        place += part;
        length -= part;
    }
    return TRUE;
}
