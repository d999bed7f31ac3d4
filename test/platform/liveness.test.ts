import { networkInterfaces, uptime } from 'node:os'
import { expect, test } from 'vitest'
import { systemLiveness } from '../../src/platform/liveness.ts'

test('the three clocks are read at one moment and move on', () => {
  const first = systemLiveness().clocks()
  const second = systemLiveness().clocks()

  expect(Math.abs(first.wallMs - Date.now())).toBeLessThan(5_000)
  expect(Math.abs(first.uptimeMs - uptime() * 1_000)).toBeLessThan(5_000)
  expect(second.monotonicMs).toBeGreaterThan(first.monotonicMs)
})

test('a machine that is reached by loopback needs loopback alone, any other an interface that leads out', () => {
  const found = Object.values(networkInterfaces()).flatMap((one) => one ?? [])
  const leadsOut = found.some(({ internal, address }) => !internal && !/^(169\.254\.|fe80:)/i.test(address))
  const { hasRoute } = systemLiveness()

  expect(hasRoute(['/ip4/127.0.0.1/tcp/4701'])).toBe(found.some(({ internal }) => internal))
  expect(hasRoute(['/ip4/192.0.2.7/tcp/4701', '/ip4/127.0.0.1/tcp/4701'])).toBe(leadsOut)
  expect(hasRoute([])).toBe(leadsOut)
})
