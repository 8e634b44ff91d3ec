! Fortran units: sequential, direct, stream and formatted files. units sequential|direct|stream|formatted|again
program units
    implicit none
    character(len=20) :: form
    call get_command_argument(1, form)
    select case (form)
    case ('sequential')
        call sequential()
    case ('direct')
        call direct()
    case ('stream')
        call stream()
    case ('formatted')
        call formatted()
    case ('again')
        call sequential()
        call direct()
        call formatted()
    end select
contains
    subroutine sequential()
        integer :: unit, k, status, found(50), records
        real(8) :: row(300)
        open (newunit=unit, file='sequential', form='unformatted', access='sequential', status='replace')
        do k = 1, 200
            row = real(k, 8) * 0.25d0
            write (unit) k, row(1:mod(k, 290) + 1)
        end do
        rewind (unit)
        do k = 1, 100
            read (unit) found(1)
            if (found(1) /= k) stop 1
        end do
        backspace (unit)
        read (unit) found(1)
        if (found(1) /= 100) stop 2
        ! Everything behind the record written last is gone.
        write (unit) -1, row
        rewind (unit)
        records = 0
        do
            read (unit, iostat=status) found(1)
            if (status /= 0) exit
            records = records + 1
        end do
        print *, 'sequential', records, found(1)
        close (unit)
        open (newunit=unit, file='sequential', form='unformatted', position='append', status='old')
        write (unit) 'appended'
        close (unit)
    end subroutine

    subroutine direct()
        integer, parameter :: length = 1200
        integer :: unit, k
        real(4) :: record(length / 4), back(length / 4)
        open (newunit=unit, file='direct', form='unformatted', access='direct', recl=length, status='replace')
        do k = 200, 1, -3
            record = real(k)
            write (unit, rec=k) record
        end do
        flush (unit)
        do k = 200, 1, -3
            read (unit, rec=k) back
            if (any(back /= real(k))) stop 3
            back(7) = -1
            write (unit, rec=k) back
        end do
        read (unit, rec=199) back
        print *, 'direct', back(1), back(7)
        close (unit)
    end subroutine

    subroutine stream()
        integer :: unit, k, where, size
        character(len=1000) :: text
        open (newunit=unit, file='stream', form='unformatted', access='stream', status='replace')
        do k = 1, 100
            text = repeat(achar(33 + mod(k, 90)), 1000)
            write (unit, pos=1 + mod(k * 37, 100) * 1013) text
        end do
        do k = 1, 100
            read (unit, pos=1 + mod(k * 37, 100) * 1013) text
            if (text(500:500) /= achar(33 + mod(k, 90))) stop 4
        end do
        inquire (unit, pos=where, size=size)
        print *, 'stream', where, size
        close (unit)
    end subroutine

    subroutine formatted()
        integer :: unit, input, k, value
        integer(8) :: total
        character(len=80) :: line
        open (newunit=unit, file='formatted', action='write', status='replace')
        do k = 1, 4000
            write (unit, '(a,i8,es20.10)') 'row', k, sqrt(real(k, 8))
        end do
        close (unit)
        open (newunit=unit, file='formatted', position='append')
        write (unit, '(a)', advance='no') 'no end of line'
        close (unit)
        open (newunit=input, file='input', action='read')
        total = 0
        do k = 1, 50000
            read (input, *) value
            total = total + value
        end do
        close (input)
        open (newunit=unit, file='formatted')
        do k = 1, 3000
            read (unit, '(a)') line
        end do
        print *, 'formatted', total, trim(line)
        close (unit)
    end subroutine
end program
