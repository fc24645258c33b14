package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisConfig is the section `redis` of the configuration.
type RedisConfig struct {
	// Addresses are host:port. Several addresses are nodes of one Redis
	// Cluster. A single address is a server or a node of a cluster, which says
	// so itself. Default: empty, no Redis.
	Addresses []string `mapstructure:"addresses"`
	// Address is short for a list of one address. Default: empty.
	Address string `mapstructure:"address"`
	// Username is the name of an ACL user. Default: empty, the default user.
	Username string `mapstructure:"username"`
	// PasswordFile is a file with the password in one line. Default: empty, no
	// password.
	PasswordFile string `mapstructure:"password_file"`
	// DB is the number of the database, from 0. A Redis Cluster has only 0.
	// Default: 0.
	DB int `mapstructure:"db"`
	// TLS encrypts the connection, and needs a certificate that proves the
	// host's name. Default: false.
	TLS bool `mapstructure:"tls"`
	// Timeout is the longest time that one pick waits for Redis before it is
	// made locally, 5ms to 10s. Default: 100ms. Zero is refused.
	Timeout time.Duration `mapstructure:"timeout"`
	// KeyPrefix is put in front of every key. Default: "kring:". Empty: no
	// prefix.
	KeyPrefix string `mapstructure:"key_prefix"`
}

// DefaultRedisConfig holds the documented defaults: no Redis.
func DefaultRedisConfig() RedisConfig {
	return RedisConfig{Timeout: 100 * time.Millisecond, KeyPrefix: "kring:"}
}

// Configured reports whether the section has an address.
func (c *RedisConfig) Configured() bool { return c.Address != "" || len(c.Addresses) > 0 }

// Validate checks the section. The error names field and value.
func (c *RedisConfig) Validate() error {
	bad := func(field string, value any, why string) error {
		return fmt.Errorf("redis.%s: %v: %s", field, value, why)
	}
	field := "addresses"
	if c.Address != "" {
		field = "address"
	}
	for _, address := range c.addresses() {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return bad(field, fmt.Sprintf("%q", address), "must be host:port")
		}
	}
	switch {
	case c.Address != "" && len(c.Addresses) > 0:
		return bad("address", fmt.Sprintf("%q", c.Address), "is short for addresses: set one of the two")
	case c.DB < 0:
		return bad("db", c.DB, "must not be negative")
	case c.DB != 0 && len(c.Addresses) > 1:
		return bad("db", c.DB, "a Redis Cluster has only database 0")
	case c.Timeout < 5*time.Millisecond || c.Timeout > 10*time.Second:
		return bad("timeout", c.Timeout, "must be 5ms to 10s")
	case strings.ContainsAny(c.KeyPrefix, "{}"):
		return bad("key_prefix", fmt.Sprintf("%q", c.KeyPrefix), "must not have braces, which Redis Cluster reads in keys")
	}
	return nil
}

// Connections is how many connections to Redis may be open at once.
func (c *RedisConfig) Connections() int { return maxConnections * len(c.addresses()) }

func (c *RedisConfig) addresses() []string {
	if c.Address != "" {
		return append([]string{c.Address}, c.Addresses...)
	}
	return c.Addresses
}

// maxConnections bounds the connections to one server.
const maxConnections = 32

// Redis is a client that the pools of a process share.
type Redis struct {
	server  *redis.Client // for a single address
	cluster *redis.ClusterClient
	// clustered is set once the server has redirected a command.
	clustered atomic.Bool
	// patience bounds the whole wait of one pick. It is shorter than the
	// configured time-out, so that a pick that ends up local stays within it too.
	patience time.Duration
	prefix   string
}

var quiet sync.Once

// DialRedis makes a Redis. It connects on first use. dial may be nil.
func DialRedis(cfg RedisConfig, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Redis, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Configured() {
		return nil, errors.New("redis.addresses: []: there must be at least one")
	}
	password := ""
	if cfg.PasswordFile != "" {
		line, err := os.ReadFile(cfg.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("redis.password_file: %w", err)
		}
		password = strings.TrimRight(string(line), "\r\n")
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	if cfg.TLS {
		dial = overTLS(dial)
	}
	// The pools log once what is wrong with Redis, so go-redis need not.
	quiet.Do(func() { redis.SetLogger(discard{}) })
	addresses := cfg.addresses()
	connect := func(address string) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: address, Username: cfg.Username, Password: password, DB: cfg.DB, Protocol: 2,
			Dialer: dial, DialTimeout: cfg.Timeout,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout,
			PoolTimeout: cfg.Timeout, PoolSize: maxConnections, ContextTimeoutEnabled: true,
			// A script whose answer was lost may have run: it is never sent twice.
			MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
	r := &Redis{patience: cfg.Timeout - cfg.Timeout/5, prefix: cfg.KeyPrefix}
	r.cluster = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addresses, MaxRedirects: maxMoves, DisableRoutingPolicies: true,
		// The cluster client does not connect before its first use.
		NewClient: func(o *redis.Options) *redis.Client { return connect(o.Addr) },
	})
	if len(addresses) == 1 {
		r.server = connect(addresses[0])
	}
	return r, nil
}

// Close closes the connections. The pools that use them must be closed before.
func (r *Redis) Close() error {
	err := r.cluster.Close()
	if r.server != nil {
		err = errors.Join(err, r.server.Close())
	}
	return err
}

// maxMoves bounds how many redirections one command follows.
const maxMoves = 3

// sentOnce is a command that go-redis does not repeat after a network error: a
// script whose answer was lost may have run. The command still follows the
// redirections of a Redis Cluster, because a master that redirects has run
// nothing.
type sentOnce struct{ redis.Cmder }

// NoRetry overrides the method of the command.
func (sentOnce) NoRetry() bool { return true }

// process runs a command where its key is. The command holds the same error.
func (r *Redis) process(ctx context.Context, cmd redis.Cmder) error {
	if r.server != nil && !r.clustered.Load() {
		err := r.server.Process(ctx, sentOnce{cmd})
		if !redis.HasErrorPrefix(err, "MOVED") && !redis.HasErrorPrefix(err, "ASK") {
			return err
		}
		r.clustered.Store(true)
	}
	return r.cluster.Process(ctx, sentOnce{cmd})
}

// key names a key of a pool. The braces put all keys of one pool on one node of
// a Redis Cluster.
func (r *Redis) key(pool, what string) string { return r.prefix + "{" + pool + "}:" + what }

// run runs a script by its digest, or by its source when Redis does not know
// the digest. Redis refuses an unknown digest without running anything.
func (r *Redis) run(ctx context.Context, s *script, keys []string, args ...any) (any, error) {
	cmd := r.send(ctx, "evalsha", s.digest, keys, args)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = r.send(ctx, "eval", s.source, keys, args)
	}
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return v, err
}

func (r *Redis) send(ctx context.Context, command, body string, keys []string, args []any) *redis.Cmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, command, body, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	// The command holds the error.
	_ = r.process(ctx, cmd)
	return cmd
}

// overTLS makes connections whose certificate must prove the dialled host.
func overTLS(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secure, nil
	}
}

// discard drops the log lines of go-redis.
type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}
