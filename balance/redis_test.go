package balance_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"kring/balance"
)

// TestMain also is the worker process of TestKilledWorker.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(runWorker(os.Getenv(workerEnv)))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if common.server != nil {
			common.server.stop()
		}
		os.Exit(code)
	}))
}

// server is a real redis-server on a free port of 127.0.0.1.
type server struct {
	addr string
	cmd  *exec.Cmd
	dir  string
	args []string
}

// common is the server of all tests that clean up after themselves.
var common struct {
	once   sync.Once
	server *server
	err    error
}

func commonRedis(t testing.TB) *server {
	t.Helper()
	common.once.Do(func() {
		var dir string
		if dir, common.err = os.MkdirTemp("", "kring-redis"); common.err == nil {
			common.server, common.err = launch(dir)
		}
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.server
}

// startRedis starts a server for one test.
func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	s, err := launch(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func launch(dir string, args ...string) (*server, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &server{addr: addr, dir: dir, args: args}
	return s, s.run()
}

// freeAddress is below the ports that the system gives to clients, so that no
// client takes it before the server does.
var lastPort atomic.Int64

func freeAddress() (string, error) {
	for range 200 {
		port := 21000 + (os.Getpid()*37+int(lastPort.Add(1)))%10000
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("no free port")
}

// run starts the server. It can start it again at the same address.
func (s *server) run() error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("these tests need a redis-server (scripts/test.sh installs it: apt-get install redis-server): %w", err)
	}
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "redis.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(binary, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir, "--enable-debug-command", "yes",
	}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server does not answer: %w", err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// stop ends the server as kill -9 does.
func (s *server) stop() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()         // reports the kill
	}
	s.cmd = nil
}

// client reaches the server past the pools.
func (s *server) client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return c
}

// do runs a command and returns the answer.
func do(t testing.TB, c redis.UniversalClient, command ...any) any {
	t.Helper()
	v, err := c.Do(context.Background(), command...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis does not wrap it
		t.Fatalf("%v: %v", command, err)
	}
	return v
}

var prefixes atomic.Int64

// redisConfig has a key prefix of its own, and a time-out for a busy machine.
func redisConfig(addrs ...string) balance.RedisConfig {
	cfg := balance.DefaultRedisConfig()
	cfg.Addresses = addrs
	cfg.Timeout = 5 * time.Second
	cfg.KeyPrefix = fmt.Sprintf("kring-%d:", prefixes.Add(1))
	return cfg
}

func dialRedis(t testing.TB, cfg balance.RedisConfig) *balance.Redis {
	t.Helper()
	r, err := balance.DialRedis(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close redis: %v", err)
		}
	})
	return r
}

// openPool opens a pool whose state is in r.
func openPool(t testing.TB, cfg balance.Config, r *balance.Redis, options ...func(*balance.Options)) *balance.Pool {
	t.Helper()
	cfg.State = "redis"
	o := balance.Options{Redis: r}
	for _, f := range options {
		f(&o)
	}
	p, err := balance.Open(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("did not come about: %s", what)
		}
	}
}

// inspected is an endpoint's status after a sync.
func inspected(t testing.TB, p *balance.Pool, name string) balance.EndpointStatus {
	t.Helper()
	st := p.Inspect(t.Context())
	if st.Degraded {
		t.Fatalf("pool %s is degraded", st.Name)
	}
	for _, e := range st.Endpoints {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no endpoint %q", name)
	return balance.EndpointStatus{}
}

// names makes n picks, ends them if end is set, and returns their names.
func names(t testing.TB, p *balance.Pool, n int, end bool) string {
	t.Helper()
	var b strings.Builder
	for range n {
		got := pick(t, p)
		b.WriteString(got.Endpoint.Name)
		if end {
			got.Done(balance.Success)
		}
	}
	return b.String()
}

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

func (s *server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// clientAs is a client that does not log in as the default user.
func (s *server) clientAs(t testing.TB, user string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, Username: user, Password: "any"})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return c
}

// BenchmarkSharedPick compares picks with the least possible shared pick:
// EVALSHA of a script of two commands, over the same connections.
func BenchmarkSharedPick(b *testing.B) {
	s := commonRedis(b)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	b.Run("bare_evalsha", func(b *testing.B) {
		c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 32, ContextTimeoutEnabled: true})
		defer c.Close()
		const key = "bare{}"
		for _, name := range names {
			do(b, c, "ZADD", key, 0, name)
		}
		script := redis.NewScript(`local m = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
redis.call('ZINCRBY', KEYS[1], 1, m)
return m`)
		if err := script.Load(b.Context(), c).Err(); err != nil {
			b.Fatal(err)
		}
		parallel(b, func(ctx context.Context) error {
			return c.EvalSha(ctx, script.Hash(), []string{key}).Err()
		})
	})
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		b.Run(policy, func(b *testing.B) {
			p := openPool(b, named(policy, names...), dialRedis(b, redisConfig(s.addr)))
			parallel(b, func(ctx context.Context) error {
				got, err := p.Pick(ctx)
				got.Done(balance.Success)
				return err
			})
			if n := p.Status().LocalPicks; n != 0 {
				b.Errorf("%d local picks", n)
			}
		})
	}
}

// parallel runs f from 8 goroutines for each core.
func parallel(b *testing.B, f func(ctx context.Context) error) {
	b.SetParallelism(8)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
}
