! MPI from Fortran: arrays in column-major order, strided sections by derived types, reductions.
! The MPI of the wheel has no Fortran library, so that its C functions are bound here; where there
! is a Fortran library, its functions call these.
module mpi_of_c
  use, intrinsic :: iso_c_binding
  implicit none
  ! Of the MPICH ABI, which keeps them.
  integer(c_int), parameter :: comm_world = int(z'44000000', c_int)
  integer(c_int), parameter :: type_integer = int(z'4c000405', c_int)
  integer(c_int), parameter :: type_double = int(z'4c00080b', c_int)
  integer(c_int), parameter :: op_sum = int(z'58000003', c_int)
  integer, parameter :: status_integers = 5

  interface
    integer(c_int) function mpi_init(num, words) bind(c, name='MPI_Init')
      import
      type(c_ptr), value :: num, words
    end function
    integer(c_int) function mpi_finalize() bind(c, name='MPI_Finalize')
      import
    end function
    integer(c_int) function mpi_abort(comm, code) bind(c, name='MPI_Abort')
      import
      integer(c_int), value :: comm, code
    end function
    integer(c_int) function mpi_comm_rank(comm, rank) bind(c, name='MPI_Comm_rank')
      import
      integer(c_int), value :: comm
      integer(c_int) :: rank
    end function
    integer(c_int) function mpi_comm_size(comm, num) bind(c, name='MPI_Comm_size')
      import
      integer(c_int), value :: comm
      integer(c_int) :: num
    end function
    integer(c_int) function mpi_type_vector(num, length, stride, old, new) &
        bind(c, name='MPI_Type_vector')
      import
      integer(c_int), value :: num, length, stride, old
      integer(c_int) :: new
    end function
    integer(c_int) function mpi_type_commit(type) bind(c, name='MPI_Type_commit')
      import
      integer(c_int) :: type
    end function
    integer(c_int) function mpi_sendrecv(out, out_num, out_type, to, out_tag, in, in_num, &
        in_type, from, in_tag, comm, status) bind(c, name='MPI_Sendrecv')
      import
      type(*), intent(in) :: out(*)
      type(*) :: in(*)
      integer(c_int), value :: out_num, out_type, to, out_tag, in_num, in_type, from, in_tag, comm
      integer(c_int) :: status(*)
    end function
    integer(c_int) function mpi_allreduce(out, in, num, type, op, comm) &
        bind(c, name='MPI_Allreduce')
      import
      type(*), intent(in) :: out(*)
      type(*) :: in(*)
      integer(c_int), value :: num, type, op, comm
    end function
    integer(c_int) function mpi_bcast(values, num, type, root, comm) bind(c, name='MPI_Bcast')
      import
      type(*) :: values(*)
      integer(c_int), value :: num, type, root, comm
    end function
  end interface
end module

program mpi_programs
  use mpi_of_c
  implicit none
  integer, parameter :: n = 300
  real(c_double) :: matrix(n, n), halo(n)
  integer(c_int) :: rank, num_ranks, above, below, row, code, status(status_integers), values(4000)
  integer :: i, j

  code = mpi_init(c_null_ptr, c_null_ptr)
  code = mpi_comm_rank(comm_world, rank)
  code = mpi_comm_size(comm_world, num_ranks)
  above = mod(rank + 1, num_ranks)
  below = mod(rank + num_ranks - 1, num_ranks)
  do j = 1, n
    do i = 1, n
      matrix(i, j) = cell(rank, i, j)
    end do
  end do

  ! A column lies in one piece, a row in n.
  code = mpi_sendrecv(matrix(:, 7), n, type_double, above, 1, halo, n, type_double, below, 1, &
                      comm_world, status)
  do i = 1, n
    call check(halo(i) == cell(below, i, 7), 'column')
  end do
  code = mpi_type_vector(n, 1, n, type_double, row)
  code = mpi_type_commit(row)
  code = mpi_sendrecv(matrix(5, 1), 1, row, below, 2, halo, n, type_double, above, 2, comm_world, &
                      status)
  do j = 1, n
    call check(halo(j) == cell(above, 5, j), 'row')
  end do
  code = mpi_allreduce(matrix(:, 1), halo, n, type_double, op_sum, comm_world)
  do i = 1, n
    call check(halo(i) == sum([(cell(j, i, 1), j = 0, num_ranks - 1)]), 'sum')
  end do
  values = -1
  if (rank == num_ranks - 1) values = [(3 * i, i = 1, size(values))]
  code = mpi_bcast(values, size(values), type_integer, num_ranks - 1, comm_world)
  do i = 1, size(values)
    call check(values(i) == 3 * i, 'broadcast')
  end do
  if (rank == 0) print '(a)', 'ok fortran'
  code = mpi_finalize()

contains

  pure real(c_double) function cell(of, i, j)
    integer(c_int), intent(in) :: of
    integer, intent(in) :: i, j
    cell = 1000000 * of + 1000 * i + j
  end function

  subroutine check(is_right, what)
    logical, intent(in) :: is_right
    character(*), intent(in) :: what
    if (is_right) return
    print '(a, i0, 2a)', 'fortran: rank ', rank, ': wrong ', what
    code = mpi_abort(comm_world, 3)
  end subroutine
end program
