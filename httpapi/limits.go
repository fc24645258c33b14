package httpapi

import "fmt"

// maxResponseBytes is beyond any machine's memory.
const maxResponseBytes = 1 << 50

// validate names the first limit that cannot be.
func (l Limits) validate() error {
	if l.RequestTimeout <= 0 {
		return fmt.Errorf("limits.request_timeout: %v is not above zero", l.RequestTimeout)
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"max_connections", l.MaxConnections},
		{"connections_per_address", l.ConnectionsPerAddress},
		{"requests_in_flight", l.RequestsInFlight},
		{"max_waiters", l.MaxWaiters},
		{"max_waiters_per_key", l.MaxWaitersPerKey},
		{"batch_keys", l.BatchKeys},
	} {
		if f.value <= 0 {
			return fmt.Errorf("limits.%s: %d is not above zero", f.name, f.value)
		}
	}
	if err := l.CheckResponses(); err != nil {
		return err
	}
	if l.RatePerToken < 0 {
		return fmt.Errorf("limits.rate_per_token: %v is below zero", l.RatePerToken)
	}
	return nil
}

// CheckResponses says whether response_bytes cannot be.
func (l Limits) CheckResponses() error {
	b := float64(l.ResponseBytes)
	if b > 0 && b <= 1 || b >= minResponseBytes && b <= maxResponseBytes {
		return nil
	}
	return fmt.Errorf("limits.response_bytes: %.0f is neither a share above 0%% nor a size from 1MiB on", b)
}
