package state

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// Row is one small text in a table of Redis: outside of documents, without a version, and only for
// a time. ID and Until are required.
type Row struct {
	ID    string
	Owner string // whose rows [Store.DropRows] removes together; it has no line feeds
	Text  string
	Until time.Time // when the row is gone
}

// ErrNoRow says that a table has no such row, or has it no more.
var ErrNoRow = errors.New("no such row")

var (
	//go:embed put_row.lua
	putRowLua string
	//go:embed drop_rows.lua
	dropRowsLua string

	putRowScript   = rdb.NewScript(putRowLua)
	dropRowsScript = rdb.NewScript(dropRowsLua)
)

// rowKeys are the keys of a part of a table: rows by id, and their ends.
func rowKeys(table string, partition int) []string {
	name := keyPrefix + "{" + strconv.Itoa(partition) + "}/rows/" + table
	return []string{name, name + "/ends"}
}

// PutRow puts a row into the table of that name, in place of one with the same id. The table has at
// most that many rows: the ones that end first go when it is full, in each of its 64 parts. It is
// one round trip. It retries while Redis is unavailable and may be repeated.
func (s *Store) PutRow(ctx context.Context, table string, most int, r Row) error {
	switch {
	case r.ID == "" || len(r.ID) > maxIDBytes:
		return fmt.Errorf("put a row: %w: the id has %d bytes, want 1 to %d", ErrKey, len(r.ID), maxIDBytes)
	case strings.Contains(r.Owner, "\n"):
		return fmt.Errorf("put a row: %w: the owner has more than one line", ErrKey)
	case len(r.Text) > s.cfg.MaxBytes:
		return fmt.Errorf("put a row: %w", ErrTooLarge)
	}
	end := r.Until.UnixMilli()
	value := strconv.FormatInt(end, 10) + "\n" + r.Owner + "\n" + r.Text
	return s.try(ctx, "put a row", putRowScript.Call(rowKeys(table, partitionOf(r.ID))...).
		Add(r.ID, value, end, time.Now().UnixMilli(), max(1, most/rdb.Partitions)))
}

// FindRow returns the row with that id. The error is [ErrNoRow] if there is none.
func (s *Store) FindRow(ctx context.Context, table, id string) (Row, error) {
	c := rdb.Plain("hmget", rowKeys(table, partitionOf(id))[0], id)
	if err := s.try(ctx, "find a row", c); err != nil {
		return Row{}, err
	}
	end, rest, _ := strings.Cut(c.List().Text(0), "\n")
	owner, text, found := strings.Cut(rest, "\n")
	until, err := strconv.ParseInt(end, 10, 64)
	if !found || err != nil || time.Now().UnixMilli() >= until {
		return Row{}, ErrNoRow
	}
	return Row{ID: id, Owner: owner, Text: text, Until: time.UnixMilli(until).UTC()}, nil
}

// Rows returns the ids of the rows of a table. Some of them may end before they are found.
func (s *Store) Rows(ctx context.Context, table string) (ids []string, err error) {
	calls := make([]*rdb.Call, rdb.Partitions)
	for p := range calls {
		calls[p] = rdb.Plain("hkeys", rowKeys(table, p)[0])
	}
	if err := s.try(ctx, "list rows", calls...); err != nil {
		return nil, err
	}
	for _, c := range calls {
		ids = append(ids, c.List().Texts()...)
	}
	return ids, nil
}

// DropRow removes the row with that id. It is no error if there is none.
func (s *Store) DropRow(ctx context.Context, table, id string) error {
	keys := rowKeys(table, partitionOf(id))
	return s.try(ctx, "drop a row", rdb.Plain("hdel", keys[0], id), rdb.Plain("zrem", keys[1], id))
}

// DropRows removes all rows of an owner.
func (s *Store) DropRows(ctx context.Context, table, owner string) error {
	calls := make([]*rdb.Call, rdb.Partitions)
	for p := range calls {
		calls[p] = dropRowsScript.Call(rowKeys(table, p)...).Add(owner)
	}
	return s.try(ctx, "drop rows", calls...)
}
