package balance

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// policy is the contract of every way to choose, in this process or shared.
//
// pick chooses from a set that is not empty, without holding the pool's lock,
// so that it may take a while and fail. It changes the state of members in the
// set only: a member that is away is found as it was left. reset is told, under
// the pool's lock, that the list of members or their weights have changed.
type policy interface {
	pick(ctx context.Context, s *set) (*member, error)
	reset(members []*member)
}

// policies by their names in the configuration.
var policies = map[string]func() policy{
	"round_robin":     func() policy { return new(roundRobin) },
	"weighted":        func() policy { return new(weighted) },
	"smooth_weighted": func() policy { return new(smooth) },
}

func policyNames() string {
	return strings.Join(slices.Sorted(maps.Keys(policies)), ", ")
}
