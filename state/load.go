package state

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Load reads the documents of keys in one round trip and returns a scope for
// each, in the order of keys. A document that does not exist makes an empty
// scope. Never more than [Config.MaxBytes] of one are read.
//
// When Redis answered but a document cannot be used ([TooLargeError],
// [FormatError]), Load returns its error together with all scopes: the
// unusable one says the same in Err, and Delete with a Save is the way out.
// With any other error ([ErrKey], [ErrUnavailable], the context's) there are
// no scopes.
func (r *Redis) Load(ctx context.Context, keys ...Key) ([]*Scope, error) {
	scopes := make([]*Scope, len(keys))
	for i, key := range keys {
		if err := key.Err(); err != nil {
			return nil, err
		}
		scopes[i] = &Scope{key: key}
	}
	if len(keys) == 0 {
		return scopes, nil
	}
	replies, err := r.read(ctx, keys)
	if err != nil {
		return nil, explain(ctx, "load state", err)
	}
	return scopes, r.fill(ctx, scopes, replies)
}

// read asks for one byte more than is allowed, to tell "just fits" from "more".
// Its error is the first that is not about one document alone.
func (r *Redis) read(ctx context.Context, keys []Key) ([]*redis.Cmd, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	calls := make([]*call, len(keys))
	for i, key := range keys {
		c := plain("getrange", key.name, 0, r.cfg.MaxBytes)
		calls[i] = &c
	}
	r.exec(ctx, calls)
	replies := make([]*redis.Cmd, len(keys))
	for i, c := range calls {
		if c.err != nil && !isWrongType(c.err) {
			return nil, c.err
		}
		replies[i] = c.reply
	}
	return replies, nil
}

// replyError is why there is no answer to a command of a pipeline. A command
// may have neither an answer nor an error of its own: go-redis v9.23 leaves it
// like that when a connection fails to log in. Reading it as an empty answer
// would make a turn forget everything.
func replyError(reply *redis.Cmd, execErr error) error {
	switch {
	case reply.Err() != nil:
		return reply.Err()
	case reply.Val() != nil:
		return nil
	case execErr != nil:
		return execErr
	}
	return errors.New("no answer")
}

func (r *Redis) fill(ctx context.Context, scopes []*Scope, replies []*redis.Cmd) error {
	var faults []error
	for i, s := range scopes {
		doc, err := replies[i].Text()
		if err == nil {
			err = s.read(doc, r.cfg.MaxBytes)
		} else { // a value of another type
			s.fault = &FormatError{Key: s.key}
			err = s.fault
		}
		var large *TooLargeError
		if errors.As(err, &large) {
			large.Size = max(large.Size, r.size(ctx, s.key))
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 1 {
		return faults[0]
	}
	return errors.Join(faults...)
}

// size asks how large a document is that was cut off, for the error to name: a
// second round trip on a path that fails anyway. 0 when there is no answer.
func (r *Redis) size(ctx context.Context, key Key) int {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return int(r.client.StrLen(ctx, key.name).Val())
}
