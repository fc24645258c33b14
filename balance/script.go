package balance

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	_ "embed"
	"encoding/hex"
)

// script is a Lua script. Redis runs it atomically.
type script struct{ source, digest string }

func newScript(parts ...string) *script {
	source := ""
	for _, part := range parts {
		source += part
	}
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &script{source, hex.EncodeToString(sum[:])}
}

// One script per operation. Scripts on leases share their beginning, lease.lua.
var (
	//go:embed leastassigned.lua
	leastAssignedLua string
	//go:embed leastassigned_sync.lua
	leastAssignedSyncLua string
	//go:embed lease.lua
	leaseLua string
	//go:embed leastinflight.lua
	leastInFlightLua string
	//go:embed leastinflight_release.lua
	leastInFlightReleaseLua string
	//go:embed leastinflight_renew.lua
	leastInFlightRenewLua string
	//go:embed leastinflight_sync.lua
	leastInFlightSyncLua string
	//go:embed publish.lua
	publishLua string

	assignScript       = newScript(leastAssignedLua)
	assignedSyncScript = newScript(leastAssignedSyncLua)
	acquireScript      = newScript(leaseLua, leastInFlightLua)
	releaseScript      = newScript(leaseLua, leastInFlightReleaseLua)
	renewScript        = newScript(leaseLua, leastInFlightRenewLua)
	inFlightSyncScript = newScript(leaseLua, leastInFlightSyncLua)
	publishScript      = newScript(publishLua)
)
