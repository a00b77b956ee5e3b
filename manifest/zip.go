package manifest

import (
	"archive/zip"
	"fmt"
	"io"
	"time"
)

// packed is the time of every file in a package: the first that the zip format
// knows, so that equal contents make equal bytes.
var packed = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// writeZip packs the manifest and both icons.
func writeZip(w io.Writer, doc []byte) error {
	zw := zip.NewWriter(w)
	for _, file := range []struct {
		name string
		data []byte
	}{{manifestName, doc}, {colorName, colorIcon}, {outlineName, outlineIcon}} {
		entry, err := zw.CreateHeader(&zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: packed})
		if err != nil {
			return fmt.Errorf("pack %s: %w", file.name, err)
		}
		if _, err := entry.Write(file.data); err != nil {
			return fmt.Errorf("pack %s: %w", file.name, err)
		}
	}
	return zw.Close()
}
