import { networkInterfaces, uptime } from 'node:os'
import process from 'node:process'
import type { Liveness } from '../ports/liveness.ts'

/** The clocks and interfaces of this machine. */
export function systemLiveness(): Liveness {
  return {
    clocks: () => ({
      monotonicMs: Number(process.hrtime.bigint()) / 1e6,
      wallMs: Date.now(),
      uptimeMs: uptime() * 1_000,
    }),
    hasRoute,
  }
}

/** The addresses of this machine's interfaces, as a text that changes with them. */
export function interfacesText(): string {
  return JSON.stringify(networkInterfaces())
}

/** The system lists only interfaces that are up, and each has a route to its own network at least. */
function hasRoute(addresses: readonly string[]): boolean {
  const up = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  if (addresses.length > 0 && addresses.every(isLoopback)) return up.some(({ internal }) => internal)
  return up.some(({ internal, address }) => !internal && !isLinkLocal(address))
}

function isLoopback(address: string): boolean {
  return /^\/(?:ip4\/127\.|ip6\/::1\/|dns4?\/localhost\/)/.test(`${address}/`)
}

function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.') || address.toLowerCase().startsWith('fe80:')
}
