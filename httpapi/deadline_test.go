package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlinePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := withDeadline(t.Context(), began.Add(time.Second))
		defer d.stop()
		if err := d.Err(); err != nil {
			t.Fatalf("ended at once: %v", err)
		}
		if at, ok := d.Deadline(); !ok || !at.Equal(began.Add(time.Second)) {
			t.Errorf("deadline %v %v", at, ok)
		}
		<-d.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %v", took)
		}
		if err := d.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestDeadlineWithoutATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := withDeadline(t.Context(), time.Now().Add(time.Second))
		other, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		<-other.Done()
		if err := d.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("late, and never waited for: %v", err)
		}
		d.stop()
		if d.inner != nil {
			t.Error("a timer was set though nobody waited")
		}
	})
}

func TestDeadlineOfTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		parent, cancel := context.WithDeadline(t.Context(), began.Add(time.Second))
		defer cancel()
		d := withDeadline(parent, began.Add(time.Hour))
		defer d.stop()
		if at, ok := d.Deadline(); !ok || !at.Equal(began.Add(time.Second)) {
			t.Errorf("deadline %v %v", at, ok)
		}
		<-d.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestDeadlineChildren: contexts made of it end with it, whichever way it
// ends, and nothing is left behind.
func TestDeadlineChildren(t *testing.T) {
	for name, end := range map[string]func(d *deadline, cancelParent func()){
		"stopped":       func(d *deadline, _ func()) { d.stop() },
		"parent's end":  func(_ *deadline, cancelParent func()) { cancelParent() },
		"stopped twice": func(d *deadline, _ func()) { d.stop(); d.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithCancel(t.Context())
				defer cancelParent()
				d := withDeadline(parent, time.Now().Add(time.Hour))
				child, cancel := context.WithCancel(d)
				defer cancel()
				end(d, cancelParent)
				<-child.Done()
				if !errors.Is(child.Err(), context.Canceled) || !errors.Is(d.Err(), context.Canceled) {
					t.Errorf("ended with %v and %v", child.Err(), d.Err())
				}
				d.stop()
			})
		})
	}
}

func TestDeadlineStoppedFirst(t *testing.T) {
	d := withDeadline(t.Context(), time.Now().Add(time.Hour))
	d.stop()
	if err := d.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped, but %v", err)
	}
	<-d.Done()
}

func TestDeadlineKeepsValues(t *testing.T) {
	type name struct{}
	d := withDeadline(context.WithValue(t.Context(), name{}, "x"), time.Now().Add(time.Hour))
	defer d.stop()
	for range 2 {
		if d.Value(name{}) != "x" {
			t.Error("the value is lost")
		}
		d.Done()
	}
}
