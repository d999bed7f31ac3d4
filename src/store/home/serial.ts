/** Runs actions one after the other, in call order, within this process: a read and the write that follows it belong together. */
export function serial(): <T>(action: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (action) => {
    const next = last.then(action)
    last = next.catch(() => undefined)
    return next
  }
}
