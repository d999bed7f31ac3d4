/**
 * Small packets to everyone on the networks that this machine is directly on: the multicast group of multicast DNS.
 * Nothing here is proven, not even who sent a packet. Implementation: `platform/lan.ts`.
 */
export interface Lan {
  /**
   * Takes part in the group until closed.
   *
   * @throws {Error} with a `code` of the system where the group's port cannot be had
   */
  open(receive: (packet: LanPacket) => void): Promise<LanChannel>
}

export interface LanPacket {
  readonly bytes: Uint8Array
  /** IPv4 address that the packet says it came from; on a network that this machine is on. */
  readonly from: string
}

/** One address of one network interface. */
export interface LanInterface {
  readonly name: string
  readonly address: string
  readonly isLoopback: boolean
}

export interface LanChannel {
  /** What is up now; the group is joined on each before it is listed. */
  interfaces(): readonly LanInterface[]
  /** Sends on one interface; it comes back to whoever listens on this machine, the sender too. @throws {Error} with a `code` */
  send(bytes: Uint8Array, on: LanInterface): Promise<void>
  /** Whether the machine has a route for multicast; without one, packets go out all the same, on each interface by itself. */
  hasRoute(): Promise<boolean>
  close(): Promise<void>
}
