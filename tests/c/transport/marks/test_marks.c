/* The marking library, preloaded before the tests' own MPI, with the test as its host. */
#include "transport/marks/marks.h"
#include "fake_mpi.h"
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANDLE(number) ((MPI_Handle)(intptr_t)(number))
#define NS_PER_S INT64_C(1000000000)
#ifdef FAKE_MPI_POINTERS
#define COMM HANDLE(0x7f00fedcba987650)
#define TYPE HANDLE(0x7f00123456789ab0)
#else
#define COMM HANDLE(-2013265920) /* negative: the bits above it must not matter */
#define TYPE HANDLE(0x4c00080b)
#endif

static int (*attach)(const pagewire_marks_host *host);
static uint32_t (*num_calls)(void);

static _Thread_local char told[256]; /* what the host was told of this thread */
static _Atomic int64_t virtual_ns;
static struct timespec clock_in_host;

static void tell(const char *how, const pagewire_marked_call *call)
{
    const size_t length = strlen(told);
    assert(call->number < num_calls());
    snprintf(told + length, sizeof told - length, "%s%s/%u ", how, call->name, call->kind);
    clock_gettime(CLOCK_MONOTONIC, &clock_in_host);
}

static void enter(const pagewire_marked_call *call) { tell("+", call); }
static void leave(const pagewire_marked_call *call) { tell("-", call); }

static int64_t clock_read(void)
{
    clock_gettime(CLOCK_MONOTONIC, &clock_in_host);
    return virtual_ns;
}

static void sleep_virtually(int64_t duration_ns) { virtual_ns += duration_ns; }

static void tell_region(char how, const char *name, size_t num_bytes)
{
    const size_t length = strlen(told);
    snprintf(told + length, sizeof told - length, "%c[%.*s] ", how, (int)num_bytes, name);
}

static void region_enter(const char *name, size_t length) { tell_region('+', name, length); }
static void region_leave(const char *name, size_t length) { tell_region('-', name, length); }

static pagewire_marks_host host = {
    .struct_size = sizeof host,
    .version = PAGEWIRE_MARKS_VERSION,
    .enter = enter,
    .leave = leave,
    .clock_read = clock_read,
    .sleep = sleep_virtually,
    .region_enter = region_enter,
    .region_leave = region_leave,
};

static void assert_told(const char *expected)
{
    if (strcmp(told, expected) != 0) {
        fprintf(stderr, "told '%s', not '%s'\n", told, expected);
        assert(!"told something else");
    }
    told[0] = '\0';
}

static int64_t in_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * NS_PER_S + time.tv_nsec;
}

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    assert(clock_gettime(id, &now) == 0);
    return in_ns(now);
}

static void test_arguments_and_results_pass_unchanged(void)
{
    int data[4], flag = 0, rank = 0;
    char **argv = NULL;
    MPI_Handle request = HANDLE(0);
    MPI_Status status;
    assert(MPI_Init(&flag, &argv) == FAKE_RESULT);
    assert(fake_mpi.pointers[0] == &flag && fake_mpi.pointers[1] == &argv);
    assert(MPI_Comm_rank(COMM, &rank) == FAKE_RESULT && rank == 3);

    assert(MPI_Sendrecv(data, -4, TYPE, 5, -6, data + 1, 7, HANDLE(8), -9, 10, COMM, &status) ==
           FAKE_RESULT);
    assert(!strcmp(fake_mpi.function, "Sendrecv"));
    const long numbers[6] = {-4, 5, -6, 7, -9, 10};
    assert(memcmp(fake_mpi.numbers, numbers, sizeof numbers) == 0);
    assert(fake_mpi.handles[0] == TYPE && fake_mpi.handles[1] == COMM);
    assert(fake_mpi.handles[2] == HANDLE(8));
    assert(fake_mpi.pointers[0] == data && fake_mpi.pointers[1] == data + 1);
    assert(fake_mpi.pointers[2] == &status);

    const long far = INT64_C(-0x123456789abcdef);
    assert(MPI_Rget_accumulate(data, -1, TYPE, data + 2, 3, HANDLE(4), -5, far, 6, HANDLE(7),
                               HANDLE(8), COMM, &request) == FAKE_RESULT);
    const long others[5] = {-1, 3, -5, far, 6};
    assert(memcmp(fake_mpi.numbers, others, sizeof others) == 0);
    assert(fake_mpi.handles[0] == TYPE && fake_mpi.handles[1] == HANDLE(4));
    assert(fake_mpi.handles[2] == HANDLE(7) && fake_mpi.handles[3] == COMM);
    assert(fake_mpi.pointers[2] == &request && request == HANDLE(8));

    assert(MPI_Send_c(data, far, TYPE, 1, 2, COMM) == FAKE_RESULT && fake_mpi.numbers[0] == far);
    assert_told("");
}

static void test_kinds_are_told_and_local_calls_are_not(void)
{
    int flag, rank;
    MPI_Handle request;
    MPI_Comm_rank(COMM, &rank);
    assert_told("");
    MPI_Isend(NULL, 0, TYPE, 1, 2, COMM, &request);
    assert_told("+Isend/0 -Isend/0 ");
    MPI_Test(&request, &flag, NULL);
    assert_told("+Test/2 -Test/2 ");
    assert(fake_mpi.handles[0] == request && request == HANDLE(0x1234567) && flag == 1);
    MPI_Send_c(NULL, 0, TYPE, 1, 2, COMM);
    assert_told("+Send/1 -Send/1 ");
    MPI_Allreduce(NULL, NULL, 0, TYPE, HANDLE(1), COMM); /* its own Send and Recv are not told */
    assert_told("+Allreduce/1 -Allreduce/1 ");
}

static void attach_here(void) { assert(attach(&host) == 0); }
static void detach_here(void) { assert(attach(NULL) == 0); }

static void detach_and_attach_here(void)
{
    detach_here();
    attach_here();
}

static void *attach_there(void *unused)
{
    detach_and_attach_here();
    return unused;
}

static void run_thread(void *(*body)(void *))
{
    pthread_t thread;
    assert(pthread_create(&thread, NULL, body, NULL) == 0);
    assert(pthread_join(thread, NULL) == 0);
}

static void attach_elsewhere(void) { run_thread(attach_there); }

static void test_a_host_is_told_of_the_calls_it_was_there_for(void)
{
    detach_here();
    fake_mpi.during = attach_here;
    MPI_Init(NULL, NULL);
    assert_told("-Init/1 ");
    fake_mpi.during = detach_and_attach_here; /* another host, for what the library knows */
    MPI_Barrier(COMM);
    assert_told("+Barrier/1 -Barrier/1 ");
    fake_mpi.during = detach_here;
    MPI_Finalize();
    assert_told("+Finalize/1 ");
    fake_mpi.during = attach_elsewhere;
    MPI_Barrier(COMM);
    assert_told("");
    MPI_Barrier(COMM); /* that host has gone before the end */
    assert_told("+Barrier/1 ");
    detach_here();
    fake_mpi.during = NULL;
    MPI_Barrier(COMM);
    assert_told("");
    attach_here(); /* outside of every call */
    assert_told("");
}

static jmp_buf outside;

static void jump_out(void) { longjmp(outside, 1); }

static void test_a_call_that_was_jumped_out_of_is_left_at_the_next(void)
{
    fake_mpi.during = jump_out;
    if (setjmp(outside) == 0) MPI_Recv(NULL, 0, TYPE, 1, 2, COMM, NULL);
    fake_mpi.during = NULL;
    assert_told("+Recv/1 ");
    MPI_Send(NULL, 0, TYPE, 1, 2, COMM);
    assert_told("-Recv/1 +Send/1 -Send/1 ");
    MPI_Send(NULL, 0, TYPE, 1, 2, COMM);
    assert_told("+Send/1 -Send/1 ");
}

static void *send_in_thread(void *unused)
{
    MPI_Send(NULL, 0, TYPE, 1, 2, COMM);
    assert_told("+Send/1 -Send/1 ");
    return unused;
}

static void send_in_another_thread(void) { run_thread(send_in_thread); }

static void test_each_thread_has_its_own_outermost_call(void)
{
    fake_mpi.during = send_in_another_thread;
    MPI_Barrier(COMM);
    fake_mpi.during = NULL;
    assert_told("+Barrier/1 -Barrier/1 ");
}

static void test_fortran_calls_are_told_under_the_name_of_c(void)
{
    const int count = 3, type = 4, dest = 5, tag = 6, comm = 7, mode = 9;
    const char name[] = "file.dat";
    int error = 0, file = 0;
    mpi_send_(name, &count, &type, &dest, &tag, &comm, &error);
    assert_told("+Send/1 -Send/1 ");
    assert(error == FAKE_RESULT && fake_mpi.pointers[0] == name && fake_mpi.numbers[0] == 3);
    assert(fake_mpi.numbers[2] == 6 && fake_mpi.handles[1] == HANDLE(7));
    mpi_file_open_(&comm, name, &mode, &type, &file, &error, 8);
    assert_told("+File_open/1 -File_open/1 ");
    assert(fake_mpi.pointers[0] == name && fake_mpi.numbers[0] == 9 && fake_mpi.numbers[1] == 8);
    assert(file == type);
    mpi_barrier_f08_(&comm, NULL);
    assert_told("+Barrier/1 -Barrier/1 ");
}

/* A page of text up to its end, behind which nothing is. */
static char *text_at_the_end_of_a_page(const char *text)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    return memcpy(pages + 4096 - strlen(text), text, strlen(text));
}

static void test_pcontrol_marks_regions(void)
{
    const int one = 1, other = -1, five = 5;
    assert(MPI_Pcontrol(1, "halo") == FAKE_RESULT && fake_mpi.numbers[0] == 1);
    assert(strcmp(fake_mpi.pointers[0], "halo") == 0);
    assert(MPI_Pcontrol(-1, "halo") == FAKE_RESULT && fake_mpi.numbers[0] == -1);
    assert_told("+[halo] -[halo] ");
    MPI_Pcontrol(7);
    MPI_Pcontrol(-7, "name");
    MPI_Pcontrol(-1, NULL);
    assert_told("+[level 7] -[level 7] -[] ");
    for (int level = -2; level <= 2; level++) /* the standard's, and no names */
        if (level != -1) MPI_Pcontrol(level, (const char *)(intptr_t)level);
    MPI_Pcontrol(0, "off");
    MPI_Pcontrol(2, "flush");
    MPI_Pcontrol(1, (char *)UINTPTR_MAX - 3);
    MPI_Pcontrol(1, text_at_the_end_of_a_page("not ended"));
    MPI_Pcontrol(1, "no\ttext");
    MPI_Pcontrol(1, "");
    MPI_Pcontrol(1, "a name of 64 bytes, which is one more than there may be in one..");
    assert_told("");
    mpi_pcontrol_(&one, "of Fortran  and more", 12);
    mpi_pcontrol_(&other, text_at_the_end_of_a_page("of Fortran"), 10);
    mpi_pcontrol_(&five, NULL, 0);
    assert_told("+[of Fortran] -[of Fortran] +[level 5] ");
}

static void test_wtime_is_the_hosts_where_it_says_so(void)
{
    virtual_ns = 5250000000;
    assert(MPI_Wtime() == FAKE_WTIME && MPI_Wtick() == FAKE_WTIME / 2);
    assert(mpi_wtime_() == FAKE_WTIME);
    host.has_virtual_wtime = 1;
    assert(MPI_Wtime() == 5250000000 * 1e-9 && MPI_Wtick() == 1e-9);
    assert(mpi_wtime_() == 5250000000 * 1e-9);
    host.has_virtual_wtime = 0;
    assert_told("");
}

/* Real time is where the fake MPI, the host and other threads are: hours before the program's. */
#define FAR_NS (5 * 3600 * NS_PER_S)

static void *expect_real_clock(void *real_ns)
{
    (void)real_ns;
    assert(read_ns(CLOCK_MONOTONIC) < in_ns(fake_mpi.clock) + FAR_NS / 2);
    usleep(1);
    return NULL;
}

static void test_clocks_are_virtual_for_the_program_alone(void)
{
    static const clockid_t ids[] = {CLOCK_REALTIME,         CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                    CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,  CLOCK_REALTIME_COARSE};
    int64_t real_ns[sizeof ids / sizeof *ids];
    struct timeval day;
    detach_here();
    host.has_virtual_clocks = 1;
    virtual_ns = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) real_ns[i] = read_ns(ids[i]);
    attach_here();
    const int64_t start_ns = read_ns(CLOCK_MONOTONIC);
    assert(read_ns(CLOCK_MONOTONIC) == start_ns); /* it stands */
    virtual_ns = FAR_NS + 17;
    assert(read_ns(CLOCK_MONOTONIC) - start_ns == FAR_NS + 17);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const int64_t passed_ns = read_ns(ids[i]) - real_ns[i];
        assert(passed_ns >= FAR_NS && passed_ns < FAR_NS + 60 * NS_PER_S);
    }
    assert(gettimeofday(&day, NULL) == 0 && day.tv_sec == read_ns(CLOCK_REALTIME) / NS_PER_S);
    assert(time(NULL) == read_ns(CLOCK_REALTIME_COARSE) / NS_PER_S);
    assert(read_ns(CLOCK_PROCESS_CPUTIME_ID) < FAR_NS);
    assert(in_ns(clock_in_host) < start_ns + FAR_NS / 2); /* the host itself */
    MPI_Barrier(COMM);
    assert(in_ns(fake_mpi.clock) < start_ns + FAR_NS / 2);
    assert(in_ns(clock_in_host) < start_ns + FAR_NS / 2);
    run_thread(expect_real_clock);
    assert(virtual_ns == FAR_NS + 17);
    assert_told("+Barrier/1 -Barrier/1 ");
}

static void test_sleeps_let_virtual_time_pass(void)
{
    struct timespec request = {3, 5};
    const int64_t start_ns = virtual_ns;
    const int64_t monotonic_ns = read_ns(CLOCK_MONOTONIC);
    assert(nanosleep(&request, NULL) == 0 && virtual_ns == start_ns + 3 * NS_PER_S + 5);
    assert(usleep(7) == 0 && virtual_ns == start_ns + 3 * NS_PER_S + 7005);
    assert(sleep(1000) == 0 && virtual_ns == start_ns + 1003 * NS_PER_S + 7005);
    request = (struct timespec){(monotonic_ns + 2000 * NS_PER_S) / NS_PER_S, 0};
    assert(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &request, NULL) == 0);
    assert(read_ns(CLOCK_MONOTONIC) == in_ns(request));
    assert(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &request, NULL) == 0); /* is past */
    assert(read_ns(CLOCK_MONOTONIC) == in_ns(request));
    request = (struct timespec){0, -1};
    assert(nanosleep(&request, NULL) == -1 && errno == EINVAL);
    assert(clock_nanosleep(CLOCK_MONOTONIC, 0, &request, NULL) == EINVAL);
}

static void test_a_forked_child_has_no_host(void)
{
    int status = 0;
    const pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        MPI_Barrier(COMM);
        _exit(told[0] == '\0' && usleep(1) == 0 ? 0 : 1);
    }
    const int64_t before_ns = virtual_ns;
    assert(waitpid(child, &status, 0) == child && status == 0 && virtual_ns == before_ns);
    MPI_Barrier(COMM);
    assert_told("+Barrier/1 -Barrier/1 ");
}

static void test_clocks_run_on_when_the_host_has_gone(void)
{
    const int64_t last_ns = read_ns(CLOCK_MONOTONIC);
    detach_here();
    const int64_t now_ns = read_ns(CLOCK_MONOTONIC);
    assert(now_ns >= last_ns && now_ns < last_ns + 60 * NS_PER_S);
    MPI_Barrier(COMM);
    assert(in_ns(fake_mpi.clock) < last_ns - FAR_NS / 2); /* the MPI library's is real */
    virtual_ns = 0;
    attach_here();
    assert(read_ns(CLOCK_MONOTONIC) >= now_ns);
    detach_here();
    host.has_virtual_clocks = 0;
    told[0] = '\0';
}

static void test_a_host_of_another_version_is_refused(void)
{
    pagewire_marks_host other = host;
    other.version++;
    assert(attach(&other) == -1);
    other = host;
    other.struct_size--;
    assert(attach(&other) == -1);
    MPI_Barrier(COMM);
    assert_told("");
}

int main(void)
{
    *(void **)&attach = dlsym(RTLD_DEFAULT, "pagewire_marks_attach");
    *(void **)&num_calls = dlsym(RTLD_DEFAULT, "pagewire_marks_num_calls");
    assert(attach && num_calls && num_calls() > 150);
    test_arguments_and_results_pass_unchanged();
    test_a_host_of_another_version_is_refused();
    attach_here();
    test_kinds_are_told_and_local_calls_are_not();
    test_a_host_is_told_of_the_calls_it_was_there_for();
    test_a_call_that_was_jumped_out_of_is_left_at_the_next();
    test_each_thread_has_its_own_outermost_call();
    test_fortran_calls_are_told_under_the_name_of_c();
    test_pcontrol_marks_regions();
    test_wtime_is_the_hosts_where_it_says_so();
    test_clocks_are_virtual_for_the_program_alone();
    test_sleeps_let_virtual_time_pass();
    test_a_forked_child_has_no_host();
    test_clocks_run_on_when_the_host_has_gone();
    return 0;
}
