import type { MultiaddrConnection, Upgrader } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'

/** An upgrader that lets each connection be seen before anything is done with it, and cuts those that are refused. */
export function seeing(upgrader: Upgrader, onRaw: (raw: MultiaddrConnection) => void): Upgrader {
  return new Proxy(upgrader, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return (...args: readonly unknown[]): unknown => {
        const isUpgrade = name === 'upgradeInbound' || name === 'upgradeOutbound'
        if (!isUpgrade) return Reflect.apply(member, target, args)
        const raw = args[0] as MultiaddrConnection
        onRaw(raw)
        const upgraded: Promise<unknown> = Reflect.apply(member, target, args)
        return upgraded.catch((error: unknown) => {
          raw.abort(error instanceof Error ? error : new Error(String(error)))
          throw error
        })
      }
    },
  })
}

/** Whether a part of a package has what we change of it; a new version may be built otherwise. */
export function isWith<T>(value: unknown, names: readonly (keyof T & string)[]): value is T {
  return typeof value === 'object' && value !== null && names.every((name) => name in value)
}

/** @param our - the file that changes a part of a package */
export function changed(part: string, our: string): NfltrError {
  return new NfltrError('internal', `The ${part} is not built as it was.`, {
    hint: `Compare src/mesh/${our} with the version that is installed.`,
  })
}
