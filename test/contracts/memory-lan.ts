import type { Lan, LanChannel, LanInterface, LanPacket } from '../../src/ports/lan.ts'

/** A local network in memory: what one sends, everyone on it hears, the sender too. */
export class MemoryLan {
  /** Everything that was sent, oldest first. */
  readonly sent: LanPacket[] = []
  readonly #receivers = new Set<(packet: LanPacket) => void>()

  /** A machine on it, with one interface that has this address. */
  at(address: string, options: { readonly isLoopback?: boolean; readonly isDeaf?: boolean } = {}): Lan {
    const here: LanInterface = { name: 'net0', address, isLoopback: options.isLoopback ?? false }
    return {
      open: async (receive) => {
        const heard = options.isDeaf === true ? (): void => undefined : receive
        this.#receivers.add(heard)
        const isOpen = (): boolean => this.#receivers.has(heard)
        const channel: LanChannel = {
          interfaces: () => (isOpen() ? [here] : []),
          send: async (bytes, on) => {
            if (isOpen()) this.tell({ bytes, from: on.address })
          },
          hasRoute: async () => true,
          close: async () => {
            this.#receivers.delete(heard)
          },
        }
        return channel
      },
    }
  }

  /** A packet of anybody. */
  tell(packet: LanPacket): void {
    this.sent.push(packet)
    for (const receive of [...this.#receivers]) receive(packet)
  }
}
