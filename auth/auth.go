package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"narad/metastore"
)

// PasswordBytesMax is the length of the longest password: bcrypt does not look at more.
const PasswordBytesMax = 72

// Slots for what takes a CPU for long.
const (
	verifySlots = 4
	hashSlots   = 2
)

var (
	// ErrCredentials reports credentials that are missing, malformed, or wrong. It says no more to anybody.
	ErrCredentials = errors.New("wrong or missing credentials")
	// ErrTooMany reports that there were too many failed logins: these credentials were not looked at.
	ErrTooMany = errors.New("too many failed logins; try again later")
	// ErrPassword reports a password that nobody may have.
	ErrPassword = fmt.Errorf("a password has 1 to %d bytes", PasswordBytesMax)
)

// Users is what an authenticator reads of the metastore.
type Users interface {
	User(name string) (metastore.User, bool)
	// Version grows with every change.
	Version() uint64
}

// Options configure an authenticator. The zero value of a field means its default.
type Options struct {
	// Cost is that of bcrypt, for new hashes. Default 10, about 50 ms.
	Cost int
	// Now is the clock, for the budgets. Default: the system's.
	Now func() time.Time
	// Random is where keys and salts for comparison come from. Default: the system's.
	Random io.Reader
}

// Authenticator verifies passwords and knows what users may do. It may be used from any number of goroutines at once.
type Authenticator struct {
	users Users
	cost  int
	key   []byte // of the keyed hash of credentials
	dummy []byte // what a user who does not exist is compared with
	macs  sync.Pool

	verifying *slots
	hashing   *slots
	budget    *budget

	mu      sync.Mutex
	known   map[string]*account // users that have been looked up
	flights map[credential]*flight
}

// New returns an authenticator of users. It takes as long as hashing a password.
func New(users Users, o Options) (*Authenticator, error) {
	if o.Cost == 0 {
		o.Cost = bcrypt.DefaultCost
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	secret := make([]byte, sha256.Size+32)
	if _, err := io.ReadFull(o.Random, secret); err != nil {
		return nil, fmt.Errorf("auth: draw a key: %w", err)
	}
	dummy, err := bcrypt.GenerateFromPassword(secret[sha256.Size:], o.Cost)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	a := &Authenticator{
		users: users, cost: o.Cost, key: secret[:sha256.Size], dummy: dummy,
		verifying: newSlots(verifySlots), hashing: newSlots(hashSlots), budget: newBudget(o.Now),
		known: map[string]*account{}, flights: map[credential]*flight{},
	}
	a.macs.New = func() any { return hmac.New(sha256.New, a.key) }
	return a, nil
}

// Hash returns the bcrypt hash of a password, after waiting for a slot. Errors: ErrPassword, and that of ctx.
func (a *Authenticator) Hash(ctx context.Context, password string) ([]byte, error) {
	if err := CheckPassword(password); err != nil {
		return nil, err
	}
	if err := a.hashing.take(ctx, true); err != nil {
		return nil, err
	}
	defer a.hashing.give()
	return bcrypt.GenerateFromPassword([]byte(password), a.cost)
}

// CheckPassword returns ErrPassword unless somebody may have this password.
func CheckPassword(password string) error {
	if password == "" || len(password) > PasswordBytesMax {
		return ErrPassword
	}
	return nil
}

// Queued returns how many verifications wait for a slot.
func (a *Authenticator) Queued() int { return a.verifying.queued() }

// account is a user as the metastore had it at a version, with what was verified.
type account struct {
	version  uint64
	user     metastore.User
	verified credential // zero for none; it covers the password hash of user
}

// account returns the user of a name. What it returns is shared and must not be written to.
func (a *Authenticator) account(name string) (account, bool) {
	version := a.users.Version() // before the user is read: what is kept may be newer than it says, never older
	a.mu.Lock()
	known, ok := a.known[name]
	if ok && known.version == version {
		found := *known
		a.mu.Unlock()
		return found, true
	}
	a.mu.Unlock()
	user, exists := a.users.User(name)

	a.mu.Lock()
	defer a.mu.Unlock()
	if !exists {
		delete(a.known, name)
		return account{}, false
	}
	fresh := &account{version: version, user: user}
	if old := a.known[name]; old != nil {
		if old.version > version { // somebody was faster
			return *old, true
		}
		fresh.verified = old.verified // worthless by itself if the hash has changed
	}
	a.known[name] = fresh
	return *fresh, true
}

// credential is the keyed hash of a name, a stored hash and a password.
type credential [sha256.Size]byte

func (a *Authenticator) credential(name string, stored []byte, password string) (c credential) {
	mac := a.macs.Get().(hash.Hash)
	mac.Reset()
	var length [2]byte
	for _, part := range [...]string{name, string(stored), password} {
		length[0], length[1] = byte(len(part)>>8), byte(len(part))
		mac.Write(length[:])
		io.WriteString(mac, part)
	}
	mac.Sum(c[:0])
	a.macs.Put(mac)
	return c
}
