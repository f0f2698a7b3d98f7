package auth

import (
	"context"
	"crypto/subtle"

	"golang.org/x/crypto/bcrypt"

	"narad/metastore"
)

// Verify returns nil if a password is that of a user. Errors: ErrCredentials, ErrTooMany, and that of ctx.
func (a *Authenticator) Verify(ctx context.Context, name, password string) error {
	if metastore.ValidateUserName(name) != nil {
		return ErrCredentials // nobody can have it, which everybody knows
	}
	account, exists := a.account(name)
	stored := account.user.PasswordHash
	if !exists || CheckPassword(password) != nil {
		stored, exists = a.dummy, false
	}
	c := a.credential(name, stored, password)
	if exists && subtle.ConstantTimeCompare(c[:], account.verified[:]) == 1 {
		return nil
	}
	f, err := a.join(c, name, password, stored, exists)
	if err != nil {
		return err
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		a.leave(f)
		return ctx.Err()
	}
}

// flight is one run of bcrypt for all who came with the same credentials.
type flight struct {
	credential credential
	name       string
	exists     bool
	charge     charge
	waiting    int                // who want to know; guarded by the authenticator's lock
	cancel     context.CancelFunc // ends the wait for a slot
	done       chan struct{}      // closed when err is set
	err        error
}

// join returns the flight of these credentials, and starts it if it is not under way. Only who starts one is charged.
func (a *Authenticator) join(c credential, name, password string, stored []byte, exists bool) (*flight, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f, ok := a.flights[c]; ok {
		f.waiting++
		return f, nil
	}
	charge, ok := a.budget.take(name)
	if !ok {
		return nil, ErrTooMany
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{credential: c, name: name, exists: exists, charge: charge, waiting: 1, cancel: cancel, done: make(chan struct{})}
	a.flights[c] = f
	go a.fly(ctx, f, password, stored)
	return f, nil
}

// leave is for one who does not want to know any more. When nobody does, a flight that still waits for its slot ends.
func (a *Authenticator) leave(f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if a.flights[f.credential] == f { // who comes now starts another
		delete(a.flights, f.credential)
	}
}

func (a *Authenticator) fly(ctx context.Context, f *flight, password string, stored []byte) {
	defer f.cancel()
	if err := a.verifying.take(ctx, f.charge.clean); err != nil {
		a.budget.giveBack(f.charge) // nothing was tried
		a.land(f, err)
		return
	}
	if len(password) > PasswordBytesMax {
		password = password[:PasswordBytesMax] // of a user who does not exist by now: it only has to take its time
	}
	matches := bcrypt.CompareHashAndPassword(stored, []byte(password)) == nil
	a.verifying.give()
	// The user may have changed meanwhile. What was verified holds only for the hash that is stored now.
	if now, still := a.account(f.name); !matches || !f.exists || !still ||
		subtle.ConstantTimeCompare(now.user.PasswordHash, stored) != 1 {
		a.land(f, ErrCredentials)
		return
	}
	a.budget.giveBack(f.charge)
	a.mu.Lock()
	if known := a.known[f.name]; known != nil {
		known.verified = f.credential
	}
	a.mu.Unlock()
	a.land(f, nil)
}

// land tells everybody who waits.
func (a *Authenticator) land(f *flight, err error) {
	a.mu.Lock()
	if a.flights[f.credential] == f {
		delete(a.flights, f.credential)
	}
	a.mu.Unlock()
	f.err = err
	close(f.done)
}
