import { NfltrError } from '../core/errors.ts'

/** What a piece of work gives, unless a signal comes first. @throws {NfltrError} `timed_out` */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(new NfltrError('timed_out', 'The peer did not answer in time.'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
