package balance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"kring/balance"
	"kring/internal/testlog"
)

// authority makes ca.pem, and a certificate and key for localhost signed by it.
func authority(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	template := func(n int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: "test"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name, kind string, der []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ca, caKey := template(1), key()
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	write("ca.pem", "CERTIFICATE", der, err)
	leaf, leafKey := template(2), key()
	leaf.DNSNames, leaf.ExtKeyUsage = []string{"localhost"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), caKey)
	write("cert.pem", "CERTIFICATE", signed, err)
	private, err := x509.MarshalPKCS8PrivateKey(leafKey)
	write("key.pem", "PRIVATE KEY", private, err)
	if ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	return roots
}

// One redis-server wants passwords, the other one speaks only TLS. Pools in
// another process, which trusts the authority by its environment, share their
// state in the right database.
func TestHowRedisIsReached(t *testing.T) {
	dir := t.TempDir()
	roots := authority(t, dir)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const defaultPassword = "of default"
	password, wrong := file("password", defaultPassword+"\n"), file("wrong", "wrong")
	worker := file("worker", "of the worker\r\n")

	plain := startRedis(t, "--requirepass", defaultPassword)
	secure := &server{dir: t.TempDir()}
	var err error
	if secure.addr, err = freeAddress(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(secure.addr)
	if err != nil {
		t.Fatal(err)
	}
	secure.args = []string{
		"--requirepass", defaultPassword, "--port", "0", "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-ca-cert-file", dir + "/ca.pem", "--tls-cert-file", dir + "/cert.pem", "--tls-key-file", dir + "/key.pem",
	}
	if err := secure.run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secure.stop)
	admin := func(s *server, db int) *redis.Client {
		o := &redis.Options{Addr: s.addr, Password: defaultPassword, DB: db, Protocol: 2, DisableIdentity: true, MaxRetries: -1}
		if s == secure {
			o.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "localhost"}
		}
		c := redis.NewClient(o)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("close the client: %v", err)
			}
		})
		return c
	}
	for _, s := range []*server{plain, secure} {
		do(t, admin(s, 0), "ACL", "SETUSER", "worker", "on", ">of the worker", "~kring-*", "+@all")
	}

	for _, tt := range []struct {
		name string
		s    *server
		set  func(c *balance.RedisConfig)
		why  string // in the log, where the state cannot be shared
	}{
		{"password", plain, func(c *balance.RedisConfig) { c.PasswordFile = password }, ""},
		{"user", plain, func(c *balance.RedisConfig) { c.Username, c.PasswordFile = "worker", worker }, ""},
		{"database", plain, func(c *balance.RedisConfig) { c.PasswordFile, c.DB = password, 5 }, ""},
		{"TLS", secure, func(c *balance.RedisConfig) { c.PasswordFile, c.TLS = password, true }, ""},
		{"TLS, user and database", secure, func(c *balance.RedisConfig) {
			c.Username, c.PasswordFile, c.DB, c.TLS = "worker", worker, 7, true
		}, ""},
		{"no password", plain, func(*balance.RedisConfig) {}, "NOAUTH"},
		{"wrong password", plain, func(c *balance.RedisConfig) { c.PasswordFile = wrong }, "WRONGPASS"},
		{"no such database", plain, func(c *balance.RedisConfig) { c.PasswordFile, c.DB = password, 99 }, "DB index is out of range"},
		{"untrusted certificate", secure, func(c *balance.RedisConfig) { c.PasswordFile, c.TLS = password, true }, "certificate signed by unknown authority"},
	} {
		for _, policy := range []string{"least_assigned", "least_in_flight"} {
			t.Run(tt.name+"/"+policy, func(t *testing.T) {
				_, port, err := net.SplitHostPort(tt.s.addr)
				if err != nil {
					t.Fatal(err)
				}
				rc := redisConfig(net.JoinHostPort("localhost", port))
				tt.set(&rc)
				cfg := config(policy, 1, 1)
				if tt.why != "" {
					log := &testlog.Buffer{}
					p := openPool(t, cfg, dialRedis(t, rc), logged(log))
					if got := names(t, p, 4, true); got != "abab" || !p.Status().Degraded {
						t.Errorf("picks %s, %+v", got, p.Status())
					}
					eventually(t, "a line in the log with "+tt.why, func() bool { return log.Count(tt.why) == 1 })
					return
				}
				t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "ca.pem"))
				cfg.State = "redis"
				wait, _ := startWorker(t, work{Redis: rc, Pool: cfg, Picks: 8})
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				for _, db := range []int{0, 5, 7} {
					keys, err := admin(tt.s, db).Keys(context.Background(), rc.KeyPrefix+"{test}:*").Result()
					if err != nil || (len(keys) > 0) != (db == rc.DB) {
						t.Errorf("database %d has %s, %v", db, strings.Join(keys, " "), err)
					}
				}
			})
		}
	}
}
