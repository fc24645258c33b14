package node

import (
	"context"
	"errors"
	"net"
	"slices"

	"kring/balance"
)

// CheckFiles reads every file that the configuration names and New would read,
// and reports what New would: a *FieldError. Nobody is called.
func (c Config) CheckFiles() error {
	// In the order of build: the first fault is the same.
	if err := c.checkRedis(); err != nil {
		return asField(err)
	}
	for _, p := range c.Pools {
		if err := p.Origin.CheckFiles(p.Name); err != nil {
			return asField(err)
		}
	}
	return asField(c.Auth.CheckFiles())
}

func (c Config) checkRedis() error {
	if !c.sharesState() {
		return nil
	}
	r, err := balance.DialRedis(c.Redis, func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the configuration is looked at, not used")
	})
	if err != nil {
		return err
	}
	return r.Close()
}

// sharesState reports whether any pool has its state in Redis.
func (c Config) sharesState() bool {
	return slices.ContainsFunc(c.Pools, func(p PoolConfig) bool { return p.State == "redis" })
}
