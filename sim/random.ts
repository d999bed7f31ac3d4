import type { Random } from '../src/ports/random.ts'

/** One seeded stream of randomness. Equal names under one seed draw equal numbers, whatever other streams draw. */
export class SeededRandom implements Random {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: number, name: string) {
    this.#a = hashText(name, 0x811c9dc5 ^ seed)
    this.#b = hashText(name, Math.imul(seed + 1, 0x9e3779b1))
    this.#c = seed >>> 0
    for (let turn = 0; turn < 12; turn++) this.#word()
  }

  next(): number {
    return this.#word() / 4_294_967_296
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.#word() & 255)
  }

  /** A whole number in [from, to]. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** One of the values. @throws {Error} where there is none */
  pick<T>(values: readonly T[]): T {
    const value = values[Math.floor(this.next() * values.length)]
    if (value === undefined) throw new Error('there is nothing to pick from')
    return value
  }

  /** One of the keys, each as likely as its weight; undefined where all weights are 0. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K | undefined {
    const entries = Object.entries(weights) as [K, number][]
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [key, weight] of entries) {
      left -= weight
      if (weight > 0 && left < 0) return key
    }
    return undefined
  }

  /** sfc32: small, fast, and long enough for any run. */
  #word(): number {
    const sum = (this.#a + this.#b + this.#counter++) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0
    return sum >>> 0
  }
}

/** FNV-1a over a text, from a start value. */
export function hashText(text: string, start: number): number {
  let hash = start >>> 0
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 16_777_619) >>> 0
  return hash
}

/** FNV-1a over bytes, from a start value. */
export function hashBytes(bytes: Uint8Array, start: number): number {
  let hash = start >>> 0
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 16_777_619) >>> 0
  return hash
}
