import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { describe, expect, test } from 'vitest'
import { OwnAddresses } from '../../src/mesh/own-addresses.ts'
import { ManualClock } from '../contracts/manual-clock.ts'

const home = multiaddr('/ip4/192.0.2.1/tcp/4701')
const office = multiaddr('/ip4/198.51.100.1/tcp/4701')

describe('own addresses', () => {
  test('a change of the interfaces is seen within five seconds, and told once', async () => {
    const machine = start()

    machine.move(office)
    await machine.clock.advance(5_000)
    await machine.clock.advance(20_000)

    expect(machine.told).toEqual([[office]])
  })

  test('while the interfaces stay, what they mean is not worked out again', async () => {
    const machine = start()

    await machine.clock.advance(60_000)

    expect(machine.reads()).toBe(1)
  })

  test('without a word of the interfaces every look works out the addresses', async () => {
    const machine = start({ isToldOfInterfaces: false })

    machine.move(office)
    await machine.clock.advance(5_000)

    expect(machine.told).toEqual([[office]])
  })

  test('two places of one process look at the same moments', async () => {
    const clock = new ManualClock()
    const looks: number[] = []
    const place = () => ({ clock, read: () => [home], onChange: () => undefined })
    const first = new OwnAddresses({ ...place(), interfaces: () => String(looks.push(clock.nowMs())) })
    first.start()
    await clock.advance(1_700)
    const second = new OwnAddresses({ ...place(), interfaces: () => String(looks.push(clock.nowMs())) })
    second.start()
    looks.length = 0

    await clock.advance(20_000)

    expect(looks.length).toBeGreaterThanOrEqual(6)
    expect(new Set(looks).size).toBe(looks.length / 2)
    first.close()
    second.close()
  })
})

function start({ isToldOfInterfaces = true } = {}) {
  const clock = new ManualClock()
  const told: (readonly Multiaddr[])[] = []
  let at = home
  let reads = 0
  const own = new OwnAddresses({
    clock,
    read: () => {
      reads += 1
      return [at]
    },
    onChange: (addresses) => told.push(addresses),
    ...(isToldOfInterfaces ? { interfaces: () => at.toString() } : {}),
  })
  own.start()
  return { clock, told, reads: () => reads, move: (to: Multiaddr) => (at = to) }
}
