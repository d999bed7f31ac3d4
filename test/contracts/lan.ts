import { describe, expect, test } from 'vitest'
import type { Lan, LanChannel, LanInterface, LanPacket } from '../../src/ports/lan.ts'

/** What every local network does. Only the loopback interface is sent on. */
export function lanContract(name: string, open: () => Promise<Lan>): void {
  describe(`local network: ${name}`, () => {
    test('whoever takes part hears what is sent on an interface, the sender too, with the address it came from', async () => {
      const lan = await open()
      const [one, other] = [await listener(lan), await listener(lan)]
      const loopback = loopbackOf(one.channel)
      const bytes = new TextEncoder().encode(`nfltr test ${Math.random()}`)
      other.channel.interfaces()

      const heard = [one.hears(bytes), other.hears(bytes)]
      await one.channel.send(bytes, loopback)

      expect(await Promise.all(heard)).toEqual([loopback.address, loopback.address])
      await Promise.all([one.channel.close(), other.channel.close()])
    })

    test('a channel that was closed hears and sends nothing, and has no interface', async () => {
      const lan = await open()
      const [one, other] = [await listener(lan), await listener(lan)]
      const loopback = loopbackOf(one.channel)
      other.channel.interfaces()
      await one.channel.close()
      const [lost, last] = [new TextEncoder().encode('nfltr lost'), new TextEncoder().encode('nfltr last')]

      await one.channel.send(lost, loopback)
      const heard = other.hears(last)
      await other.channel.send(last, loopback)
      await heard

      expect(one.packets).toEqual([])
      expect(other.packets.map(({ bytes }) => new TextDecoder().decode(bytes))).not.toContain('nfltr lost')
      expect(one.channel.interfaces()).toEqual([])
      await other.channel.close()
    })
  })
}

function loopbackOf(channel: LanChannel): LanInterface {
  const loopback = channel.interfaces().find(({ isLoopback }) => isLoopback)
  if (loopback === undefined) throw new Error('no loopback interface takes part')
  return loopback
}

async function listener(lan: Lan): Promise<{
  readonly channel: LanChannel
  readonly packets: readonly LanPacket[]
  /** Resolves with the sender's address once these bytes came. */
  hears(bytes: Uint8Array): Promise<string>
}> {
  const packets: LanPacket[] = []
  const waiting: { readonly text: string; readonly resolve: (from: string) => void }[] = []
  const channel = await lan.open((packet) => {
    packets.push(packet)
    for (const { text, resolve } of waiting) if (hex(packet.bytes) === text) resolve(packet.from)
  })
  return {
    channel,
    packets,
    hears: (bytes) => new Promise((resolve) => waiting.push({ text: hex(bytes), resolve })),
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
