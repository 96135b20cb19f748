package dev.strandline.client;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

/** Wakes the threads that wait for something, which look for themselves whether it is so. */
final class Signal {
  private final Set<Thread> waiting = ConcurrentHashMap.newKeySet();

  void fire() {
    waiting.forEach(LockSupport::unpark);
  }

  void add(Thread thread) {
    waiting.add(thread);
  }

  void remove(Thread thread) {
    waiting.remove(thread);
  }
}
