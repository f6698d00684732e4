/* MPI_Wtime and MPI_Wtick: of the rank's virtual clock while the host says has_virtual_wtime, else
 * the MPI library's own. No mark: reading a clock is no communication, and the host's reading has
 * its cost. The Fortran entry points are the C functions: that is what those of MPICH and of Open
 * MPI call, and they return the same double. */
#include "transport/marks/clocks.h"

typedef double reader(void);

#define PW_NS 1e-9

static const pagewire_marks_host *virtual_host(void)
{
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    return host && host->has_virtual_wtime ? host : NULL;
}

PW_MARKS_EXPORTED double MPI_Wtime(void)
{
    static _Atomic(void *) own;
    const pagewire_marks_host *host = virtual_host();
    if (host) return (double)pw_clocks_virtual_ns(host, pw_marks_frame()) * PW_NS;
    return ((reader *)pw_marks_own(&own, "MPI_Wtime\0PMPI_Wtime\0"))();
}

PW_MARKS_EXPORTED double MPI_Wtick(void)
{
    static _Atomic(void *) own;
    if (virtual_host()) return PW_NS;
    return ((reader *)pw_marks_own(&own, "MPI_Wtick\0PMPI_Wtick\0"))();
}

#define FORTRAN(name, c_name) PW_MARKS_EXPORTED reader name __attribute__((alias(#c_name)));
FORTRAN(mpi_wtime_, MPI_Wtime)
FORTRAN(mpi_wtime__, MPI_Wtime)
FORTRAN(mpi_wtime, MPI_Wtime)
FORTRAN(MPI_WTIME, MPI_Wtime)
FORTRAN(mpi_wtime_f08_, MPI_Wtime)
FORTRAN(ompi_wtime_f, MPI_Wtime)
FORTRAN(mpi_wtick_, MPI_Wtick)
FORTRAN(mpi_wtick__, MPI_Wtick)
FORTRAN(mpi_wtick, MPI_Wtick)
FORTRAN(MPI_WTICK, MPI_Wtick)
FORTRAN(mpi_wtick_f08_, MPI_Wtick)
FORTRAN(ompi_wtick_f, MPI_Wtick)

/* Open MPI's `use mpi` reads them through these. */
PW_MARKS_EXPORTED void mpi_wtime_f90_(double *now) { *now = MPI_Wtime(); }

PW_MARKS_EXPORTED void mpi_wtick_f90_(double *tick) { *tick = MPI_Wtick(); }

typedef void writer(double *value);
#define FORTRAN_90(name, own) PW_MARKS_EXPORTED writer name __attribute__((alias(#own)));
FORTRAN_90(mpi_wtime_f90__, mpi_wtime_f90_)
FORTRAN_90(mpi_wtime_f90, mpi_wtime_f90_)
FORTRAN_90(MPI_WTIME_F90, mpi_wtime_f90_)
FORTRAN_90(mpi_wtick_f90__, mpi_wtick_f90_)
FORTRAN_90(mpi_wtick_f90, mpi_wtick_f90_)
FORTRAN_90(MPI_WTICK_F90, mpi_wtick_f90_)
