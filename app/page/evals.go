package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxReports    = 100 // the newest ones are read
	maxReportSize = 8 << 20
	maxReportsAll = 64 << 20
	maxSides      = 8
	maxCases      = 5000 // of a side
	maxDiffers    = 500  // cases that a comparison lists
)

// evalViews show the saved reports of evaluations.
type evalViews struct{ *server }

func (v evalViews) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/evals", func(w http.ResponseWriter, r *http.Request) { v.show(w, "/dev/evals", "Evals", v.view(r).html()) })
	mux.HandleFunc("GET /dev/evals.json", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, v.view(r)) })
}

// evalsView is what the view of evaluations shows.
type evalsView struct {
	Version int         `json:"version"`
	Folder  string      `json:"folder"`
	Rows    []evalRow   `json:"reports"` // newest first
	Faults  []string    `json:"faults"`
	A       string      `json:"a,omitempty"` // the rows that are compared
	B       string      `json:"b,omitempty"`
	Compare *comparison `json:"comparison,omitempty"`
}

// evalRow is one side of a report.
type evalRow struct {
	ID    string    `json:"id"` // file and number of the side
	File  string    `json:"file"`
	At    time.Time `json:"at"` // when the file was written
	Side  string    `json:"side"`
	About string    `json:"about"`
	Asked int       `json:"asked"`
	Of    int       `json:"of"` // in the whole run, of all sides
	Stop  string    `json:"stop,omitempty"`
	evalShares
	// Since is how many points more of the plans were all right than in the report before it that is
	// about the same; nil: there is none.
	Since *int `json:"since,omitempty"`

	results []evalResult
}

// evalShares are the numbers that bottest eval has for a side.
type evalShares struct {
	Valid    float64 `json:"valid"`
	Action   float64 `json:"action"`
	Entities float64 `json:"entities"`
	Unwanted float64 `json:"unwanted"`
	NoAnswer int     `json:"noAnswer,omitempty"`
	Calls    float64 `json:"modelCalls"`
	Tokens   float64 `json:"tokens"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	Cost     float64 `json:"cost"`
}

// evalResult is what one side planned for a case.
type evalResult struct {
	Case     string   `json:"case"`
	Lang     string   `json:"lang,omitempty"`
	Plan     []string `json:"plan"`
	Valid    bool     `json:"valid"`
	Action   bool     `json:"action"`
	Entities bool     `json:"entities"`
	Unwanted []string `json:"unwanted,omitempty"`
	Fault    string   `json:"fault,omitempty"`
}

// comparison is where two sides differ.
type comparison struct {
	Better  int          `json:"better"` // cases that were wrong in A and are right in B
	Worse   int          `json:"worse"`
	Same    int          `json:"same"`
	OnlyA   int          `json:"onlyA"` // cases that the other does not have
	OnlyB   int          `json:"onlyB"`
	Differs []caseDiffer `json:"differs"`
	More    int          `json:"more,omitempty"` // that are not listed
}

// caseDiffer is a case that is right on one side and wrong on the other, or planned otherwise.
type caseDiffer struct {
	Case string     `json:"case"`
	A    evalResult `json:"a"`
	B    evalResult `json:"b"`
}

func (v evalViews) view(r *http.Request) evalsView {
	said := evalsView{Version: madeVersion, Folder: v.of.Evals, Rows: []evalRow{}, Faults: []string{}}
	if v.of.Evals == "" {
		return said
	}
	said.Rows, said.Faults = readReports(v.of.Evals)
	for i := range said.Rows {
		row := &said.Rows[i]
		same := func(other evalRow) bool {
			return other.Side == row.Side && other.About == row.About && other.Of == row.Of
		}
		if j := slices.IndexFunc(said.Rows[i+1:], same); j >= 0 {
			points := percent(row.Entities) - percent(said.Rows[i+1+j].Entities)
			row.Since = &points
		}
	}
	find := func(id string) *evalRow {
		i := slices.IndexFunc(said.Rows, func(row evalRow) bool { return row.ID == id })
		if i < 0 {
			return nil
		}
		return &said.Rows[i]
	}
	a, b := find(r.URL.Query().Get("a")), find(r.URL.Query().Get("b"))
	if a != nil && b != nil {
		said.A, said.B, said.Compare = a.ID, b.ID, compareSides(a.results, b.results)
	}
	return said
}

// percent is a share in points.
func percent(share float64) int { return int(min(max(share, 0), 1)*100 + .5) }

// readReports reads the newest reports of a folder, and says what it could not read.
func readReports(dir string) (rows []evalRow, faults []string) {
	rows, faults = []evalRow{}, []string{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, faults
	}
	if err != nil {
		return rows, []string{shownText(err.Error())}
	}
	var files []fs.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(entry.Name()) == ".json" {
			files = append(files, info)
		}
	}
	slices.SortStableFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(b.Name(), a.Name()))
	})
	if len(files) > maxReports {
		faults = append(faults, fmt.Sprintf("The folder has %d files. The page reads the newest %d.", len(files), maxReports))
		files = files[:maxReports]
	}
	left := maxReportsAll
	for _, info := range files {
		raw, err := readReport(filepath.Join(dir, info.Name()))
		if left -= len(raw); left < 0 {
			faults = append(faults, fmt.Sprintf("The files have more than %d MiB. The page reads the newest ones.", maxReportsAll>>20))
			break
		}
		var of []evalRow
		if err == nil {
			of, err = rowsOf(info, raw)
		}
		if err != nil {
			faults = append(faults, shownText(fmt.Sprintf("%s: %s", info.Name(), err)))
		}
		rows = append(rows, of...)
	}
	return rows, faults
}

func readReport(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // in the folder of reports
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only
	raw, err := io.ReadAll(io.LimitReader(file, maxReportSize+1))
	if err == nil && len(raw) > maxReportSize {
		return nil, fmt.Errorf("it has more than %d MiB", maxReportSize>>20)
	}
	return raw, err
}

func rowsOf(info fs.FileInfo, raw []byte) (rows []evalRow, err error) {
	var report struct {
		Of    int    `json:"of"`
		Stop  string `json:"stop"`
		Sides []struct {
			Name  string `json:"name"`
			About string `json:"about"`
			All   struct {
				Asked int `json:"asked"`
				evalShares
			} `json:"all"`
			Results []evalResult `json:"results"`
		} `json:"sides"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return nil, fmt.Errorf("it is no report of bottest eval --json: %w", err)
	}
	if len(report.Sides) == 0 {
		return nil, errors.New("it is no report of bottest eval --json: it has no sides")
	}
	for i, side := range report.Sides[:min(len(report.Sides), maxSides)] {
		rows = append(rows, evalRow{
			ID: info.Name() + "/" + strconv.Itoa(i+1), File: info.Name(), At: info.ModTime(), Side: side.Name, About: side.About,
			Asked: side.All.Asked, Of: report.Of, Stop: report.Stop, evalShares: side.All.evalShares,
			results: side.Results[:min(len(side.Results), maxCases)],
		})
	}
	return rows, nil
}

// compareSides finds what differs. A case that was asked several times is compared time by time.
func compareSides(a, b []evalResult) *comparison {
	c := &comparison{Differs: []caseDiffer{}}
	byCase := map[string][]evalResult{}
	for _, one := range b {
		byCase[one.Case] = append(byCase[one.Case], one)
	}
	for _, was := range a {
		rest := byCase[was.Case]
		if len(rest) == 0 {
			c.OnlyA++
			continue
		}
		is := rest[0]
		byCase[was.Case] = rest[1:]
		switch {
		case was.Entities == is.Entities && slices.Equal(was.Plan, is.Plan):
			c.Same++
			continue
		case is.Entities && !was.Entities:
			c.Better++
		case was.Entities && !is.Entities:
			c.Worse++
		}
		if len(c.Differs) == maxDiffers {
			c.More++
			continue
		}
		c.Differs = append(c.Differs, caseDiffer{was.Case, was, is})
	}
	for _, rest := range byCase {
		c.OnlyB += len(rest)
	}
	slices.SortStableFunc(c.Differs, func(a, b caseDiffer) int { return cmp.Compare(a.rank(), b.rank()) })
	return c
}

// rank puts cases that became wrong first.
func (d caseDiffer) rank() int {
	switch {
	case d.A.Entities && !d.B.Entities:
		return 0
	case d.B.Entities && !d.A.Entities:
		return 1
	}
	return 2
}

// Outcome says in a word how good the plan was.
func (r evalResult) Outcome() string {
	switch {
	case r.Entities:
		return "right"
	case !r.Valid:
		return "no plan that can run"
	case r.Action:
		return "wrong entities"
	}
	return "wrong actions"
}

// Text is the plan, or why there is none.
func (r evalResult) Text() string { return shownText(cmp.Or(strings.Join(r.Plan, "\n"), r.Fault)) }

// Label is the row in a list to choose from.
func (r evalRow) Label() string {
	return spelling.OneLine(marked(r.File+" "+r.Side+": "+r.About), maxLine/2)
}

// Trend is Since in words.
func (r evalRow) Trend() string {
	if r.Since == nil {
		return ""
	}
	return fmt.Sprintf("%+d points", *r.Since)
}
