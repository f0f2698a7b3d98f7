package load

import (
	"fmt"
	"time"

	"narad/bench/report"
)

// RawStats is what posting bodies to a server gave that is no Narad.
type RawStats struct {
	Rate    float64        `json:"per_second"`
	Latency report.Latency `json:"latency"`
	CPU     float64        `json:"cpu_us"` // of the server, a request
}

// Raw posts bodies of the size of a message from so many clients, with the client that produces use as well.
func Raw(server *Server, clients, size int, d time.Duration) (RawStats, error) {
	var ph phase
	ph.produce.Store(true)
	all := make([]session, clients)
	posters := make([]*poster, clients)
	body := newPayload(size)
	for i := range all {
		posters[i] = &poster{phase: &ph, request: request("POST", "/", server.Host, body)}
		all[i] = posters[i]
	}
	l, err := startLoop(server.Host, all)
	if err != nil {
		return RawStats{}, err
	}
	time.Sleep(min(warmUp, d))
	cpu, _ := server.CPU()
	begin := now()
	ph.measuring.Store(true)
	time.Sleep(d)
	ph.measuring.Store(false)
	seconds := float64(now()-begin) / float64(time.Second)
	end, _ := server.CPU()
	ph.produce.Store(false)
	err = l.wait()
	var list [][]int64
	n := 0
	for _, p := range posters {
		list = append(list, p.took)
		n += len(p.took)
	}
	return RawStats{Rate: float64(n) / seconds, Latency: report.Distribution(list...), CPU: float64(end-cpu) / float64(time.Microsecond) / float64(max(n, 1))}, err
}

// poster sends the same request again and again.
type poster struct {
	phase   *phase
	request []byte
	sent    int64
	took    []int64
}

func (p *poster) next() ([]byte, int64) {
	if !p.phase.produce.Load() {
		return nil, never
	}
	p.sent = now()
	return p.request, 0
}

func (p *poster) reply(a answer) error {
	if a.status != 202 {
		return fmt.Errorf("load: a post was answered %d", a.status)
	}
	if p.phase.measuring.Load() {
		p.took = append(p.took, now()-p.sent)
	}
	return nil
}
