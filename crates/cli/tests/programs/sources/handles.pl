# Perl's handles. handles.pl handles|system|inplace
use strict;
use warnings;
use Fcntl qw(:DEFAULT :flock :seek);
use IO::Handle;
use Digest::SHA qw(sha256_hex);

sub sum {
    my ($name) = @_;
    open my $file, '<:raw', $name or die "$name: $!";
    local $/;
    return "$name " . (-s $name) . ' ' . substr(sha256_hex(<$file>), 0, 16) . "\n";
}

sub handles {
    open my $out, '>', 'lines' or die $!;
    print $out "line $_\n" for 1 .. 9000;
    close $out;
    open my $both, '+<:raw', 'lines' or die $!;
    for my $k (0 .. 200) {
        seek $both, $k * 401, SEEK_SET;
        read $both, my $bytes, 30;
        seek $both, -10, SEEK_CUR;
        print $both substr($bytes, 0, 9);
        $both->flush;
    }
    truncate $both, 80000;
    print tell($both), "\n";
    close $both;
    open my $log, '>>', 'lines' or die $!;
    flock $log, LOCK_EX or die $!;
    print $log "appended\n" x 1000;
    close $log;
    open my $in, '<', 'lines' or die $!;
    my $count = () = <$in>;
    print "$count\n", sum('lines'), sum('input');
}

sub system_calls {
    sysopen my $file, 'records', O_RDWR | O_CREAT, 0640 or die $!;
    for my $k (0 .. 150) {
        sysseek $file, ($k * 7 % 151) * 3000, SEEK_SET;
        syswrite $file, pack('N', $k) x 700;
    }
    sysseek $file, 5000, SEEK_SET;
    sysread $file, my $bytes, 100000;
    print length($bytes), ' ', substr(sha256_hex($bytes), 0, 16), "\n";
    my $pid = fork;
    if (!$pid) {
        sysseek $file, 9000, SEEK_SET;
        syswrite $file, 'child' x 500;
        exec 'dd', 'if=records', 'of=copied', 'bs=3333', 'status=none';
    }
    waitpid $pid, 0;
    print $?, ' ', sysseek($file, 0, SEEK_CUR), "\n", sum('records'), sum('copied');
    open STDOUT_COPY, '>&', \*STDOUT or die $!;
    open STDOUT, '>', 'output' or die $!;
    system 'echo from a child; cat records';
    open STDOUT, '>&', \*STDOUT_COPY or die $!;
    print sum('output'), scalar(`wc -c <output`);
}

sub inplace {
    system 'dd', 'if=input', 'of=edited', 'bs=700', 'status=none';
    local ($^I, @ARGV) = ('.bak', 'edited');
    while (<>) {
        s/7/seven/;
        print;
    }
    print sum('edited'), sum('edited.bak');
    link 'edited', 'linked' or die $! unless -e 'linked';
    rename 'edited', 'moved' or die $!;
    unlink 'linked';
    print sum('moved');
}

{ handles => \&handles, system => \&system_calls, inplace => \&inplace }->{$ARGV[0]}->();
