package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"narad/metastore"
	"narad/vfs"
)

// RootName is the name of the first user, who may do everything and cannot be deleted.
const RootName = "root"

// PasswordFile is the file of the data directory that holds the password of the root user when it was drawn. Operators remove it once
// they have read it.
const PasswordFile = "admin-password"

// While there is no leader the first user is tried again, for about a minute.
const (
	seedTries = 600
	seedPause = 100 * time.Millisecond
)

// passes reports an error that goes away by itself.
func passes(err error) bool {
	return errors.Is(err, metastore.ErrNoLeader) || errors.Is(err, metastore.ErrUncertain)
}

const (
	passwordDraft = PasswordFile + ".new"
	passwordDrawn = 24 // random bytes
)

// Store is what is needed to make the first user.
type Store interface {
	Users
	CreateUser(metastore.User) error
}

// Seeded says what SeedRoot did.
type Seeded uint8

// What SeedRoot did.
const (
	RootExists    Seeded = iota // there was one: a password that is given now is ignored
	RootFromGiven               // made with the password that was given
	RootFromFile                // made with the password of PasswordFile, drawn now or at an earlier try
)

// SeedRoot makes the root user unless there is one. Without a given password it draws one and writes it to PasswordFile of dir, the
// data directory, durably and before the user is made; a file that is there already is never overwritten, its password is
// used: an earlier start may have stopped between the two. A lost race with another node counts as RootExists.
func (a *Authenticator) SeedRoot(ctx context.Context, store Store, dir vfs.Dir, given string, now time.Time, random io.Reader) (Seeded, error) {
	if u, exists := store.User(RootName); exists {
		if !u.Root {
			return 0, fmt.Errorf("auth: the user %s is not the root user; delete it, with security off", RootName)
		}
		return RootExists, nil
	}
	password, done := given, RootFromGiven
	if given == "" {
		var err error
		if password, err = passwordOf(dir, random); err != nil {
			return 0, err
		}
		done = RootFromFile
	}
	hash, err := a.Hash(ctx, password)
	if err != nil {
		return 0, fmt.Errorf("auth: the password of the first user: %w", err)
	}
	ms := now.UnixMilli()
	root := metastore.User{Name: RootName, PasswordHash: hash, Root: true, CreatedAtMs: ms, UpdatedAtMs: ms}
	err = store.CreateUser(root)
	for tries := 1; tries < seedTries && passes(err); tries++ {
		select {
		case <-time.After(seedPause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		uncertain := errors.Is(err, metastore.ErrUncertain)
		if err = store.CreateUser(root); uncertain && errors.Is(err, metastore.ErrUserExists) {
			if a.Verify(ctx, RootName, password) != nil { // another node was faster
				return RootExists, nil
			}
			return done, nil
		}
	}
	switch {
	case errors.Is(err, metastore.ErrUserExists):
		return RootExists, nil
	case err != nil:
		return 0, fmt.Errorf("auth: make the first user: %w", err)
	}
	return done, nil
}

// passwordOf returns the password of the file, which it makes if there is none.
func passwordOf(dir vfs.Dir, random io.Reader) (string, error) {
	password, err := readPassword(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return password, err
	}
	drawn := make([]byte, passwordDrawn)
	if _, err := io.ReadFull(random, drawn); err != nil {
		return "", fmt.Errorf("auth: draw a password: %w", err)
	}
	password = base64.RawURLEncoding.EncodeToString(drawn)
	if err := writePassword(dir, password); err != nil {
		return "", fmt.Errorf("auth: write %s: %w", PasswordFile, err)
	}
	return password, nil
}

func readPassword(dir vfs.Dir) (string, error) {
	f, err := dir.Open(PasswordFile)
	if err != nil {
		return "", fmt.Errorf("auth: open %s: %w", PasswordFile, err)
	}
	defer f.Close()
	text := make([]byte, 4*PasswordBytesMax)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("auth: read %s: %w", PasswordFile, err)
	}
	password := strings.TrimRight(string(text[:n]), "\r\n")
	if err := CheckPassword(password); err != nil {
		return "", fmt.Errorf("auth: %s holds no password (%w); remove it to have one drawn", PasswordFile, err)
	}
	return password, nil
}

// writePassword makes the file under another name first, so that it is never there in part.
func writePassword(dir vfs.Dir, password string) error {
	if err := dir.Remove(passwordDraft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := dir.Create(passwordDraft)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(password+"\n"), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := dir.Rename(passwordDraft, PasswordFile); err != nil {
		return err
	}
	return dir.Sync()
}
