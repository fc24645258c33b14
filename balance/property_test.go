package balance_test

import (
	"testing"

	"pgregory.net/rapid"

	"kring/balance"
)

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// In one period (sum of the weights ÷ their gcd) smooth picks every member
// weight ÷ gcd times, and then the current weights are all 0. checkBooks looks
// at their sum after each pick.
func TestOnePeriod(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 8).Draw(rt, "weights")
		sum, div := 0, 0
		for _, w := range weights {
			sum += w
			div = gcd(w, div)
		}
		p := newPool(t, config("smooth_weighted", weights...))
		picks(t, p, sum/div)
		for i, e := range p.Status().Endpoints {
			if e.Assigned != int64(weights[i]/div) || e.CurrentWeight != 0 {
				rt.Fatalf("weights %v: %s picked %d times, current weight %d; want %d and 0", weights, e.Name, e.Assigned, e.CurrentWeight, weights[i]/div)
			}
		}
	})
}

// With any actions of the operator and any health: no pick goes to an endpoint
// that is not eligible or has weight 0, a pick succeeds while any endpoint is
// eligible, and every pick is released.
func TestOnlyTheEligibleArePicked(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		rapid.Check(t, func(rt *rapid.T) {
			weights := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 6).Draw(rt, "weights")
			cfg := config(policy, weights...)
			cfg.MaxEjected = rapid.Float64Range(0, 1).Draw(rt, "max_ejected")
			cfg.Health.MaxFails = rapid.IntRange(0, 3).Draw(rt, "max_fails")
			p := newPool(t, cfg)
			eligible := map[string]bool{}
			for i, w := range weights {
				eligible[string(rune('a'+i))] = w > 0
			}
			var held []balance.Pick
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				name := string(rune('a' + rapid.IntRange(0, len(weights)-1).Draw(rt, "endpoint")))
				switch rapid.IntRange(0, 5).Draw(rt, "step") {
				case 0:
					on := rapid.Bool().Draw(rt, "on")
					p.SetEligible(name, on)
					eligible[name] = on && weights[name[0]-'a'] > 0
				case 1:
					if len(held) > 0 {
						held[0].Done(balance.Outcome(rapid.IntRange(1, 3).Draw(rt, "outcome")))
						held = held[1:]
					}
				default:
					got, err := p.Pick(t.Context())
					any := false
					for _, on := range eligible {
						any = any || on
					}
					if (err == nil) != any {
						rt.Fatalf("pick: %v with eligible %v", err, eligible)
					}
					if err == nil {
						if !eligible[got.Endpoint.Name] {
							rt.Fatalf("picked %s, eligible are %v", got.Endpoint.Name, eligible)
						}
						held = append(held, got)
					}
				}
				checkBooks(t, p)
			}
			for _, h := range held {
				h.Done(balance.Cancelled)
			}
			for _, e := range p.Status().Endpoints {
				if e.InFlight != 0 {
					rt.Fatalf("%s: %d in flight at the end", e.Name, e.InFlight)
				}
			}
		})
	})
}

func BenchmarkPick(b *testing.B) {
	for _, policy := range policies {
		b.Run(policy, func(b *testing.B) {
			p := newPool(b, config(policy, 5, 1, 1, 2, 3, 1, 1, 4, 2, 1))
			ctx := b.Context()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					got, err := p.Pick(ctx)
					if err != nil {
						b.Error(err)
						return
					}
					got.Done(balance.Success)
				}
			})
		})
	}
}
