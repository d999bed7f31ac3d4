import type { Readable, Writable } from 'node:stream'
import { ReadBuffer, serializeMessage } from '@modelcontextprotocol/sdk/shared/stdio.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'

/**
 * MCP over standard input and output. Unlike the kit's own it knows when a reply has left this process whole, because only
 * then may the hub count its entries as confirmed (rule 1): the kit resolves when the bytes were buffered.
 */
export class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  /** Sees every message that arrives, before the kit does. */
  onarrived?: (message: JSONRPCMessage) => void
  /** Told once the operating system took every byte of a message, or that it did not take them. */
  onsent?: (message: JSONRPCMessage, error: Error | undefined) => void

  readonly #input: Readable
  readonly #output: Writable
  readonly #buffer = new ReadBuffer()
  #isClosed = false

  constructor(input: Readable, output: Writable) {
    this.#input = input
    this.#output = output
  }

  async start(): Promise<void> {
    this.#input.on('data', (chunk: Buffer) => this.#take(chunk))
    this.#input.once('end', () => void this.close())
    this.#input.once('error', () => void this.close())
    this.#output.once('error', () => void this.close())
  }

  /** Resolves when the operating system took every byte of the message; rejects when it did not. */
  send(message: JSONRPCMessage): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#output.write(serializeMessage(message), (error) => {
        this.onsent?.(message, error ?? undefined)
        if (error) reject(error)
        else resolve()
      })
    })
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#input.removeAllListeners('data')
    this.onclose?.()
  }

  #take(chunk: Buffer): void {
    try {
      this.#buffer.append(chunk)
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)))
      void this.close()
      return
    }
    for (;;) {
      try {
        const message = this.#buffer.readMessage()
        if (message === null) return
        this.onarrived?.(message)
        this.onmessage?.(message)
      } catch (error) {
        this.onerror?.(error instanceof Error ? error : new Error(String(error)))
      }
    }
  }
}
