#include "apps/hpcg/kernels.h"
#include "apps/lammps/kernels.h"
