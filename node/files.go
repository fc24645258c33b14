package node

import (
	"context"
	"errors"
	"net"
	"slices"

	"kring/balance"
)

// FileFaults reads every file that the configuration names and New would read.
// It reports the errors of New, in the same order: *FieldErrors, the first one
// of Redis, of each pool, and of the tokens. It makes no connection.
func (c Config) FileFaults() (faults []error) {
	errs := []error{c.checkRedis()}
	for _, p := range c.Pools {
		errs = append(errs, p.Origin.CheckFiles(p.Name))
	}
	for _, err := range append(errs, c.Auth.CheckFiles()) {
		if err != nil {
			faults = append(faults, asField(err))
		}
	}
	return faults
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

// sharesState reports whether a pool has its state in Redis.
func (c Config) sharesState() bool {
	return slices.ContainsFunc(c.Pools, func(p PoolConfig) bool { return p.State == "redis" })
}
