// Command notes checks proofs of logs (C2SP tlog-proof) with the libraries of Go's checksum database, and none of ours.
//
// It reads a line of JSON for each from its standard input: the key of the log as people write it (`key`), the entry in base64
// (`entry`) or in hexadecimal (`entryHex`), and the proof (`proof`). It prints "ok INDEX SIZE" for each that holds, "refused WHY" for each that does not. So that
// it cannot say yes to everything, it checks each that holds once more with a bit of the entry turned, which must not hold.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type shown struct {
	Key      string `json:"key"`
	Entry    []byte `json:"entry"`
	EntryHex string `json:"entryHex"`
	Proof    string `json:"proof"`
}

// checkpoint gives the size and the root in a note that the key signed.
func checkpoint(text string, key string) (int64, tlog.Hash, error) {
	var root tlog.Hash
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return 0, root, err
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return 0, root, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) < 4 || lines[0] != verifier.Name() {
		return 0, root, errors.New("it is no checkpoint of that log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return 0, root, err
	}
	root, err = tlog.ParseHash(lines[2])
	return size, root, err
}

func check(one shown) (int64, int64, error) {
	head, text, found := strings.Cut(one.Proof, "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return 0, 0, errors.New("it is no proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return 0, 0, err
	}
	size, root, err := checkpoint(text, one.Key)
	if err != nil {
		return 0, 0, err
	}
	var proof tlog.RecordProof
	for _, line := range lines[2:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return 0, 0, err
		}
		proof = append(proof, hash)
	}
	return index, size, tlog.CheckRecord(proof, size, root, index, tlog.RecordHash(one.Entry))
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var one shown
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fmt.Println("refused", err)
			continue
		}
		if one.EntryHex != "" {
			// What is not hexadecimal is cut where it ends to be, and is no entry then.
			one.Entry, _ = hex.DecodeString(one.EntryHex)
		}
		if len(one.Entry) == 0 {
			fmt.Println("refused it has no entry")
			continue
		}
		index, size, err := check(one)
		if err != nil {
			fmt.Println("refused", err)
			continue
		}
		changed := one
		changed.Entry = append([]byte(nil), one.Entry...)
		changed.Entry[len(changed.Entry)/2] ^= 1
		if _, _, err := check(changed); err == nil {
			fmt.Println("refused a changed entry holds too:", base64.StdEncoding.EncodeToString(changed.Entry))
			continue
		}
		fmt.Println("ok", index, size)
	}
	if err := lines.Err(); err != nil {
		fmt.Println("refused", err)
	}
}
