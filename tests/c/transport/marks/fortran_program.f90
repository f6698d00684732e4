! Calls the tests' own MPI as a Fortran compiler does, hidden length of a text included.
program fortran_program
  implicit none
  external :: mpi_send, mpi_file_open
  double precision, external :: mpi_wtime
  integer :: ierror, file
  integer :: data(2) = [1, 2]
  call mpi_send(data, 2, 3, 4, 5, 6, ierror)
  print '(a, i0)', 'send ', ierror
  call mpi_file_open(7, 'some file', 8, 9, file, ierror)
  print '(a, i0, 1x, i0)', 'open ', ierror, file
  print '(a, f0.1)', 'time ', mpi_wtime()
end program
