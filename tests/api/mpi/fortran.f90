! Fortran through MPICH's own Fortran library: each failed check is printed.
module callbacks
  use mpi_f08
  implicit none
  integer :: deleted = 0, queried = 0, freed = 0
contains
  subroutine copy_twice(comm, keyval, extra, value, copied, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value, copied
    logical :: flag
    copied = 2 * value + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine count_deleted(comm, keyval, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    deleted = deleted + int(value)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine add(invec, inoutvec, length, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer :: length
    type(MPI_Datatype) :: datatype
    double precision, pointer :: one(:), other(:)
    call c_f_pointer(invec, one, [length])
    call c_f_pointer(inoutvec, other, [length])
    other = one + 10 * other
  end subroutine

  subroutine query(extra, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    type(MPI_Status) :: status
    integer :: ierror
    queried = int(extra)
    status%MPI_SOURCE = 7
    call MPI_Status_set_elements(status, MPI_INTEGER, 3)
    call MPI_Status_set_cancelled(status, .false.)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine free_it(extra, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    freed = int(extra)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

program fortran
  use mpi_f08
  use callbacks
  implicit none
  integer :: rank, size, total, keyval, count, i
  integer(MPI_ADDRESS_KIND) :: value, extra, memory
  logical :: flag
  double precision :: mine(4), left(4)
  integer, allocatable :: all(:)
  character(len=20) :: word
  type(MPI_Comm) :: other
  type(MPI_Op) :: op
  type(MPI_Status) :: status
  type(MPI_Request) :: request, both(2)
  type(MPI_Datatype) :: column
  type(MPI_Win) :: window
  integer :: matrix(3, 3), row(3)
  interface
    function seen_in_c(comm, keyval) bind(C)
      use, intrinsic :: iso_c_binding, only: c_int, c_intptr_t
      integer(c_int), value :: comm, keyval
      integer(c_intptr_t) :: seen_in_c
    end function
    function copies_an_address(comm, keyval) bind(C)
      use, intrinsic :: iso_c_binding, only: c_int
      integer(c_int), value :: comm, keyval
      integer(c_int) :: copies_an_address
    end function
    function key_of_c() bind(C)
      use, intrinsic :: iso_c_binding, only: c_int
      integer(c_int) :: key_of_c
    end function
  end interface

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)

  mine = rank + [1d0, 2d0, 3d0, 4d0]
  call MPI_Sendrecv(mine, 4, MPI_DOUBLE_PRECISION, modulo(rank + 1, size), 5, &
    left, 4, MPI_DOUBLE_PRECISION, modulo(rank - 1, size), 5, MPI_COMM_WORLD, status)
  call check(all_equal(left, modulo(rank - 1, size) + [1d0, 2d0, 3d0, 4d0]), "sendrecv")
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count)
  call check(count == 4 .and. status%MPI_TAG == 5 .and. status%MPI_SOURCE == modulo(rank - 1, size), "status")

  call MPI_Isend(mine, 4, MPI_DOUBLE_PRECISION, modulo(rank + 1, size), 6, MPI_COMM_WORLD, both(1))
  call MPI_Irecv(left, 4, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, both(2))
  call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)

  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(total == size * (size - 1) / 2, "allreduce")
  call MPI_Allreduce(MPI_IN_PLACE, mine, 4, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  call check(all_equal(mine, size - 1 + [1d0, 2d0, 3d0, 4d0]), "in place")
  flag = .true.
  call MPI_Allreduce(MPI_IN_PLACE, flag, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
  call check(flag, "logical")
  allocate(all(size))
  call MPI_Allgather(rank, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD)
  call check(sum(all) == total, "allgather")
  word = merge("the root's word     ", "                    ", rank == 0)
  call MPI_Bcast(word, len(word), MPI_CHARACTER, 0, MPI_COMM_WORLD)
  call check(word == "the root's word", "characters")

  call MPI_Op_create(add, .false., op)
  mine = 1
  call MPI_Scan(MPI_IN_PLACE, mine, 4, MPI_DOUBLE_PRECISION, op, MPI_COMM_SELF)
  call check(mine(1) == 1d0, "an operation of its own, alone")
  call MPI_Reduce_local([1d0, 1d0, 1d0, 1d0], mine, 4, MPI_DOUBLE_PRECISION, op)
  call check(mine(4) == 11d0, "an operation of its own")
  call MPI_Op_free(op)

  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  call check(flag .and. value >= 32767, "the largest tag")
  extra = 1
  call MPI_Comm_create_keyval(copy_twice, count_deleted, keyval, extra)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, flag)
  call check(.not. flag, "no attribute")
  call check(copies_an_address(MPI_COMM_WORLD%MPI_VAL, keyval) == 1, "a copied address of C")
  deleted = 0
  value = -20
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value)
  call check(seen_in_c(MPI_COMM_WORLD%MPI_VAL, keyval) == -20, "an attribute that C sees")
  call MPI_Comm_dup(MPI_COMM_WORLD, other)
  call check(seen_in_c(other%MPI_VAL, keyval) == -39, "a copied attribute that C sees")
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call check(flag .and. value == -39, "a copied attribute")
  call MPI_Comm_free(other)
  call check(deleted == -39, "a deleted attribute")
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval)
  call MPI_Comm_free_keyval(keyval)
  call check(deleted == -59, "two deleted attributes")
  keyval = key_of_c()
  value = -20
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value)
  call MPI_Comm_dup(MPI_COMM_WORLD, other)
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval)
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call check(flag .and. value == -20, "an attribute that C has copied")
  call MPI_Comm_free(other)
  call MPI_Comm_free_keyval(keyval)

  call MPI_Win_create(matrix, 36_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window)
  call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag)
  call check(flag .and. value == 36, "the size of a window")
  call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, value, flag)
  call check(flag .and. value == 4, "the unit of a window")
  call MPI_Win_get_attr(window, MPI_WIN_BASE, value, flag)
  call MPI_Get_address(matrix, memory)
  call check(flag .and. value == memory, "the base of a window")
  call MPI_Win_free(window)

  matrix = reshape([(i, i = 1, 9)], [3, 3])
  call MPI_Type_vector(3, 1, 3, MPI_INTEGER, column)
  call MPI_Type_commit(column)
  call MPI_Sendrecv(matrix(2, 1), 1, column, 0, 1, row, 3, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
  call check(row(1) == 2 .and. row(2) == 5 .and. row(3) == 8, "a row of a matrix")
  call MPI_Type_free(column)

  extra = 12
  call MPI_Grequest_start(query, free_it, cancel, extra, request)
  call MPI_Grequest_complete(request)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call check(queried == 12 .and. freed == 12 .and. status%MPI_SOURCE == 7 .and. count == 3, "a generalized request")

  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  call MPI_Send(mine, 1, MPI_DOUBLE_PRECISION, size, 0, MPI_COMM_WORLD, i)
  call check(i /= MPI_SUCCESS, "an error")
  call MPI_Finalize()
contains
  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (.not. right) print *, rank, what
  end subroutine

  pure logical function all_equal(one, another)
    double precision, intent(in) :: one(:), another(:)
    all_equal = maxval(abs(one - another)) == 0
  end function
end program
